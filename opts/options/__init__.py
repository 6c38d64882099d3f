"""The options, one file each. Importing this package makes them known, in this order: that of tables, messages and proposals."""

from __future__ import annotations

from ..registry import register
from .cache import CACHE
from .early_exit import EARLY_EXIT
from .fold import FOLD
from .fuse import FUSE
from .grid import GRID
from .group import GROUP
from .halo import HALO
from .local import LOCAL
from .move import MOVE
from .own import OWN
from .padto import PADTO
from .parallel import PARALLEL
from .phase import PHASE
from .rewrite import REWRITE
from .split import SPLIT
from .stage import STAGE
from .swizzle import SWIZZLE
from .tc import TC
from .tile import TILE
from .unroll import UNROLL
from .upcast import UPCAST

for option in (
    *(
        TILE,
        MOVE,
        UPCAST,
        UNROLL,
        PARALLEL,
        LOCAL,
        GROUP,
        FOLD,
        REWRITE,
        PHASE,
        HALO,
        SPLIT,
        FUSE,
    ),
    *(STAGE, TC, SWIZZLE, GRID, PADTO, CACHE, EARLY_EXIT, OWN),
):
    register(option)
