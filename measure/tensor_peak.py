"""What tensor cores add to the peak of a GPU: how many times as fast as FMA units they make a kernel's sums of products."""

from __future__ import annotations

from ..ir.kernel import Kernel
from ..opts.nests import Nest, flat, plain
from ..opts.tensor_cores import products, sides, takes
from ..opts.tensor_moves import fitting_rows, places
from ..targets import Target
from ..targets.tensor_rows import TensorRow, rate
from ..targets.tensor_step import generation

_FMAS = {"sm_80": 64}
"""Products of float32 that a multiprocessor's threads add in a cycle, where these are not 128 (CUDA C++ Programming Guide,
"Arithmetic Instructions")."""
_WARP_SHARE = {"hopper": 0.6}
"""The share of the tensor cores' rate that instructions of one warp reach; those of four warps reach all of it (W. Luo et al.,
"Benchmarking and Dissecting the Nvidia Hopper GPU Architecture")."""


def tensor_times(kernel: Kernel, target: Target) -> dict[str, float]:
    """By sum of products that tensor cores of `target` can make: how many times the rate of its FMA units on float32 they reach. A sum
    counts where the instruction's types are the kernel's own, or one factor's are and the other is a value that the kernel makes, as
    attention's probabilities; float32 data do not become tf32. Empty for targets without tensor cores."""
    if not target.language.tensor_cores:
        return {}
    found: dict[str, float] = {}
    for n in flat(plain(kernel)):
        rates = [
            _products(row, target)
            for m in {m: None for m, _, _ in places(n)}
            for row in fitting_rows(target, n, m)
            if takes(row, n.expr.dtype, sides(products(n.expr)[0], m)) or _half_exact(row, n)
        ]
        if rates:
            found[n.name] = max(rates) / _FMAS.get(target.cpu, 128)
    return found


def _products(row: TensorRow, target: Target) -> float:
    """How many products a multiprocessor of `target` adds in a cycle at most with operands of the row's types."""
    share = _WARP_SHARE.get(generation(target), 1.0) if row.unit == target.warp else 1.0
    return rate(row, target) * row.m * row.n * row.k / share


def _half_exact(row: TensorRow, nest: Nest) -> bool:
    """Whether one factor has the row's narrow type already."""
    types = [x.src[0].dtype if x.op == "cast" else x.dtype for x in products(nest.expr)[0].src]
    return any(t is to and to.size < 4 for t, to in zip(types, (row.a, row.b), strict=True))


def unit(kernel: Kernel, target: Target) -> str:
    """What does the kernel's arithmetic at the peak that its roofline counts: 'tensor cores' or 'FMA units'; '' for processors."""
    if target.kind != "gpu":
        return ""
    return "tensor cores" if tensor_times(kernel, target) else "FMA units"
