"""A kernel with one symbolic size, compiled once for each part of that size's range."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..ir.kernel import Kernel
from .compiled_kernel import CompiledKernel

if TYPE_CHECKING:
    from ..cache import Cache
    from ..cache.keys import Key
    from ..devices import BoundCall

FACT = "buckets"
"""Where a row of the whole range says how it is divided: [[lo, hi], …], in its provenance."""


def divided(kernel: Kernel, key: Key, cache: Cache) -> tuple[str, list[tuple[int, int]]]:
    """(the symbol, the parts of its range that have a schedule of their own, in order), as the newest row of a key says; ('', []) where none
    does, or where what it says is no division of the symbol's range into parts."""
    if len(kernel.symbols) != 1:
        return "", []
    s = kernel.symbols[0].arg
    found = [row for row in cache.answers(key) if row.facts.get(FACT)]
    if not found:
        return "", []
    said = max(found, key=lambda r: r.when).facts[FACT]
    parts: list[tuple[int, int]] = []
    least = s.lo
    for part in said if isinstance(said, list) else []:
        if not (isinstance(part, list) and len(part) == 2 and all(type(x) is int for x in part) and least <= part[0] <= part[1] <= s.hi):
            return "", []
        parts.append((part[0], part[1]))
        least = part[1] + 1
    return (s.name, parts) if parts != [(s.lo, s.hi)] else ("", [])


class BucketedKernel(CompiledKernel):
    """It is called as any `CompiledKernel`. The size is read from the arrays' shapes (or the keyword), and the kernel of its bucket is
    called. Sizes outside of all buckets have the kernel of the whole range, which this is. `buckets`: (lo, hi, kernel), in order."""

    def __init__(self, whole: CompiledKernel, buckets: Sequence[tuple[int, int, CompiledKernel]]) -> None:
        super().__init__(whole.kernel, whole.plan, whole.built, whole._executable)
        self.buckets = tuple(buckets)
        self._whole = whole
        self._firsts = [lo for lo, _, _ in self.buckets]
        symbol = whole.kernel.symbols[0]
        self._symbol = symbol.arg.name
        places = [(i, d) for i, b in enumerate(whole.kernel.buffers) for d, e in enumerate(b.shape) if e is symbol]
        self._place = places[0] if places else None

    def _of_size(self, inputs: Sequence[Any], outs: Sequence[Any], symbols: dict[str, int]) -> CompiledKernel:
        """The kernel for a call. Where something is wrong with the arrays, that of the whole range, which says so."""
        size: Any = symbols.get(self._symbol)
        if size is None and self._place is not None:
            i, d = self._place
            arrays = (*inputs, *outs)
            shape = getattr(arrays[i], "shape", ()) if i < len(arrays) else ()
            size = shape[d] if d < len(shape) else None
        if not isinstance(size, int):
            return self._whole
        at = bisect_right(self._firsts, size) - 1
        return self.buckets[at][2] if at >= 0 and size <= self.buckets[at][1] else self._whole

    def __call__(self, *inputs: Any, out: Any = None, **symbols: int) -> Any:
        outs = () if out is None else tuple(out) if isinstance(out, (tuple, list)) else (out,)
        compiled = self._of_size(inputs, outs, symbols)
        if compiled is not self._whole and len(compiled.kernel.symbols) == 0:
            symbols = {k: v for k, v in symbols.items() if k != self._symbol}
        return compiled(*inputs, out=out, **symbols)

    def bound(self, *arrays: Any, **symbols: int) -> BoundCall:
        """A call for a `Replay`, of the kernel for these arrays."""
        first = len(self.kernel.inputs)
        compiled = self._of_size(arrays[:first], arrays[first:], symbols)
        if compiled is self._whole:
            return super().bound(*arrays, **symbols)
        if len(compiled.kernel.symbols) == 0:
            symbols = {k: v for k, v in symbols.items() if k != self._symbol}
        return compiled.bound(*arrays, **symbols)

    def repack(self) -> None:
        """Forget what is packed of constant inputs, in all kernels."""
        super().repack()
        for kernel in (self._whole, *(k for _, _, k in self.buckets)):
            kernel.repack()

    def __repr__(self) -> str:
        parts = ", ".join(f"{lo}..{hi}: {p.schedule or 'no options'}" for lo, hi, p in self.buckets)
        return f"<BucketedKernel {self._binder.usage()}: {self._symbol} in {parts}>"
