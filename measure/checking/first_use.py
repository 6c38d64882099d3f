"""A schedule that nobody measured, checked before it answers: sampled outputs on random and special inputs, in this process.

It runs where it will run, on inputs of its own, and parts of its outputs are compared with the float64 reference as a candidate's are:
the first elements, the last, ragged ones, and others at random. Beside every array lie bytes that it must not change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...ir.evaluation import cut_axes
from ...ir.evaluation.algebra import Algebra
from ...ir.evaluation.dense import Env
from ...ir.evaluation.reference import bind, checked_inputs
from ...ir.evaluation.sampling import RUN, evaluation_work, sampled_slices
from ...ir.index import evaluate
from ...ir.node import as_node
from ..inputs import generate, generate_special, shape
from .verify import certain_expectations, check, reference_kernel

if TYPE_CHECKING:
    import numpy as np

    from ...devices import Device, Executable
    from ...ir.evaluation.dense import Span
    from ...ir.kernel import Kernel
    from ...program.program import Signature

    Array = np.ndarray[Any, Any]


WORK = 1 << 19
"""Elements of arrays that a reference may take (`evaluation_work`): tens of milliseconds. Of larger kernels parts are compared."""
MOST_WORK = 1 << 24
"""The same of kernels of which no parts can be taken: above it they are not checked."""
MOST_BYTES = 1 << 28
"""Bytes of operands above which a kernel is not checked."""
RAGGED = 67
"""A symbol's value, beside its least, as far as its range has it."""
_PAD, _POISON = 256, 0xFF
"""Bytes before and after every array, and what they and outputs hold at first (of floats: NaN)."""


def wrong(kernel: Kernel, signature: Signature, executable: Executable, device: Device, lossy: bool, seed: int = 0) -> str | None:
    """What is wrong with a built schedule of `kernel`, '' where nothing was found, None where it is too large to be looked at. `executable` takes
    host addresses. `lossy`: it may compute in lower precision."""
    looked = False
    for vars in _sizes(kernel):
        if _bytes(kernel, vars) > MOST_BYTES:
            continue
        for kind, values in _kinds(kernel, vars, seed):
            found = _compared(kernel, signature, executable, reference_kernel(kernel, device.target, lossy), vars, values)
            if found is None:
                continue
            looked = True
            if found:
                at = "".join(f", {k}={v}" for k, v in vars.items())
                return f"{found} on {kind} inputs{at}"
    return "" if looked else None


def _sizes(kernel: Kernel) -> list[dict[str, int]]:
    """Values of the symbols: the least of each, and ragged ones."""
    if not kernel.symbols:
        return [{}]
    some = [{s.arg.name: s.arg.lo for s in kernel.symbols}, {s.arg.name: max(s.arg.lo, min(s.arg.hi, RAGGED)) for s in kernel.symbols}]
    return some if some[0] != some[1] else some[:1]


def _bytes(kernel: Kernel, vars: Mapping[str, int]) -> int:
    out = 0
    for b in kernel.buffers:
        size = b.dtype.size
        for d in shape(b, kernel, vars):
            size *= d
        out += size
    return out


def _kinds(kernel: Kernel, vars: Mapping[str, int], seed: int) -> Sequence[tuple[str, dict[str, Array]]]:
    # moderate special values: what drivers and reordered factors make of the others is no fault
    return [
        ("random", generate(kernel, vars, seed)),
        ("special", generate_special(kernel, vars, seed + 1, wild=True, subnormal=False, huge=False)),
    ]


def _thinned(kernel: Kernel, values: Mapping[str, Array], vars: Mapping[str, int], slices: list[dict[str, Span]]) -> list[dict[str, Span]]:
    """The slices, which are parts of one axis, with a part of each other axis too: its first places, its last, and some at random."""
    import numpy as np

    symbols = bind(kernel, values, vars)
    prefix = cut_axes(kernel, Env(Algebra(), checked_inputs(kernel, values, symbols), symbols))
    rng, out = np.random.default_rng(0), []
    for i, s in enumerate(slices):
        others = {}
        for family, n in prefix:
            if family not in s:
                most = max(0, n - RUN)
                lo = 0 if i == 0 else most if i == len(slices) - 1 else int(rng.integers(most + 1))
                others[family] = lo, min(n, lo + RUN)
        out.append({**s, **others})
    return out


def _compared(
    kernel: Kernel, signature: Signature, executable: Executable, reference: Kernel, vars: Mapping[str, int], values: Mapping[str, Array]
) -> str | None:
    import numpy as np

    symbols = {s: vars[s.arg.name] for s in kernel.symbols}
    points = 1
    for s in kernel.symbols:
        points *= vars[s.arg.name]
    work = max(1, points * evaluation_work(reference, in_order=True))
    slices = sampled_slices(reference, values, vars, WORK / work, 0) if work > WORK else None
    slices = None if slices is None else _thinned(reference, values, vars, slices)
    if slices is None and work > MOST_WORK:
        return None
    expects = certain_expectations(reference, values, vars, slices, 1)
    arrays: dict[str, Array] = {}
    alias = {b.name: b.alias for b in kernel.outputs if b.alias}
    for b in kernel.buffers:
        if b.name in alias:
            continue
        dims = tuple(int(evaluate(as_node(d), symbols)) for d in b.shape)
        raw = np.full(2 * _PAD + b.dtype.size * int(np.prod(dims)), _POISON, np.uint8)
        if b.name in values:
            inner = raw[_PAD : len(raw) - _PAD]
            inner[:] = np.ascontiguousarray(values[b.name]).reshape(-1).view(np.uint8)
        arrays[b.name] = raw
    for name, of in alias.items():
        arrays[name] = arrays[of]
    addresses = {name: a.ctypes.data + _PAD for name, a in arrays.items()}
    executable.run([addresses[p.name] for p in signature.params], [vars[s] for s in signature.symbols])
    for name, a in arrays.items():
        if (a[:_PAD] != _POISON).any() or (a[len(a) - _PAD :] != _POISON).any():
            return f"it writes outside {name}"
    for name, e in expects.items():
        verdict = check(e, addresses[name])
        if not verdict.ok:
            return verdict.detail
    return ""
