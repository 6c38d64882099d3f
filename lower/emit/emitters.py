"""Which emitter is for which kind of nest."""

from __future__ import annotations

from ..lowering import Emitters
from ..staged.fill import fill
from ..staged.ring import Ring
from .fold import fold
from .point import point
from .reduce import reduce, together
from .scan import chain, scan
from .store import stores, streaming

EMITTERS = Emitters(
    nests={"reduce": reduce, "scan": scan, "point": point},
    stores=stores,
    streaming=streaming,
    together=together,
    chain=chain,
    fold=fold,
    stage=fill,
    ring=Ring,
)
