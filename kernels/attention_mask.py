"""Sizes that say which keys a query sees, for the kernels of attention's gradient: `causal` (0 or 1), `w` (the last w
keys up to its own; 0: all) and `shared`, the heads of queries that share one head of keys and values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.buffer import Extent
from ..ir.errors import KernelError
from ..ir.node import Node
from .attention import pairs, visible
from .common import f64
from .definition import Arrays, Shape

if TYPE_CHECKING:
    import numpy as np

SIZES = ("causal", "w", "shared")
DEFAULT = {"causal": 1, "w": 0, "shared": 1}
MINIMUM = {"causal": 0, "w": 0}


@dataclass(frozen=True)
class Mask:
    """What the sizes mean. Raises KernelError where they do not go together."""

    causal: bool
    window: Extent | None
    shared: int

    @classmethod
    def of(cls, s: Shape) -> Mask:
        """From a kernel's sizes."""
        causal, w, shared = s["causal"], s["w"], s["shared"]
        if not isinstance(causal, int) or causal > 1:
            raise KernelError(f"causal={causal} must be 0 or 1")
        if not causal and w != 0:
            raise KernelError("a window (w) needs causal=1")
        if not isinstance(shared, int) or not isinstance(s["h"], int) or s["h"] % shared:
            raise KernelError(f"shared={shared} heads of queries must divide h={s['h']}, and both be ints")
        return cls(bool(causal), w if w != 0 else None, shared)

    def seen(self, i: Node, j: Node) -> Node | None:
        """Where query i sees key j; None: everywhere."""
        return visible(i, j, self.causal, self.window)

    def pairs(self, s: Shape) -> int:
        """Pairs of one head that are not masked."""
        return pairs(s, self.causal, self.window if isinstance(self.window, int) else None)


def matrix(s: Shape) -> np.ndarray[Any, Any]:
    """The mask as booleans (s, s)."""
    import numpy as np

    mask = Mask.of(s)
    seen = np.tri(s["s"], dtype=bool) if mask.causal else np.ones((s["s"], s["s"]), bool)
    return seen if mask.window is None else seen & ~np.tri(s["s"], k=-s["w"], dtype=bool)


def repeated(x: Arrays, name: str, s: Shape) -> np.ndarray[Any, Any]:
    """Keys or values in float64, a head of them for each head of queries."""
    import numpy as np

    return np.repeat(f64(x[name]), s["shared"], axis=1)
