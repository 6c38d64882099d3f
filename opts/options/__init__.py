"""The options, one file each. Importing this package makes them known, in this order: that of tables, messages and proposals."""

from __future__ import annotations

from ..registry import register
from .axes import MOVE, PADTO, PARALLEL, TILE, UNROLL, UPCAST
from .cache import CACHE
from .early_exit import EARLY_EXIT
from .fold import FOLD
from .fuse import FUSE
from .grid import GRID
from .halo import HALO
from .own import OWN
from .phase import PHASE
from .rewrite import REWRITE
from .split import SPLIT
from .stage import STAGE
from .tc import TC
from .thread_groups import GROUP, LOCAL, SWIZZLE

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
