"""The options, one file each. Importing this package makes them known, in this order: that of tables, messages and proposals."""

from __future__ import annotations

from ..registry import register
from .accumulate import ACCUMULATE
from .cache import CACHE
from .distribute import DISTRIBUTE
from .early_exit import EARLY_EXIT
from .factor import FACTOR
from .fold import FOLD
from .fuse import FUSE
from .grid import GRID
from .group import GROUP
from .halo import HALO
from .hoist import HOIST
from .local import LOCAL
from .move import MOVE
from .operands import OPERANDS
from .own import OWN
from .padto import PADTO
from .parallel import PARALLEL
from .phase import PHASE
from .scatter import SCATTER
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
        SCATTER,
        FACTOR,
        DISTRIBUTE,
        OPERANDS,
        HOIST,
        PHASE,
        ACCUMULATE,
        HALO,
        SPLIT,
        FUSE,
    ),
    *(STAGE, TC, SWIZZLE, GRID, PADTO, CACHE, EARLY_EXIT, OWN),
):
    register(option)
