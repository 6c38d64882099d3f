"""The options, one file each. Importing this package makes them known, in this order: that of tables, messages and proposals."""

from __future__ import annotations

from ..registry import register
from .accumulate import ACCUMULATE
from .cluster import CLUSTER
from .distribute import DISTRIBUTE
from .exit import EXIT
from .factor import FACTOR
from .fetch import FETCH
from .fold import FOLD
from .fuse import FUSE
from .group import GROUP
from .halo import HALO
from .hoist import HOIST
from .launch import LAUNCH
from .local import LOCAL
from .move import MOVE
from .nolocal import NOLOCAL
from .nt import NT
from .operands import OPERANDS
from .own import OWN
from .padto import PADTO
from .parallel import PARALLEL
from .persist import PERSIST
from .phase import PHASE
from .private import PRIVATE
from .roll import ROLL
from .scatter import SCATTER
from .set import SET
from .splitk import SPLITK
from .splitscan import SPLITSCAN
from .stage import STAGE
from .swizzle import SWIZZLE
from .tc import TC
from .tile import TILE
from .unroll import UNROLL
from .upcast import UPCAST
from .warpspec import WARPSPEC

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
        ROLL,
        SPLITK,
        SPLITSCAN,
        FUSE,
    ),
    *(STAGE, TC, SWIZZLE, PERSIST, WARPSPEC, CLUSTER, PADTO, NOLOCAL, LAUNCH, NT, FETCH, EXIT, OWN, PRIVATE, SET),
):
    register(option)
