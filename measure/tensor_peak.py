"""What tensor cores add to the peak of a GPU: how many times as fast as FMA units they make a kernel's sums of
products."""

from __future__ import annotations

from collections.abc import Iterator

from ..ir.kernel import Kernel
from ..ir.node import Node
from ..opts.nests import Nest, flat, plain
from ..opts.options.tensor_moves import places
from ..opts.tensor_cores import products, sides, takes
from ..targets import Target
from ..targets.gpu_rates import rates_of
from ..targets.tensor_rows import TensorRow, available, rate
from ..targets.tensor_step import generation

_WARP_SHARE = {"hopper": 0.6}
"""The share of the tensor cores' rate that instructions of one warp reach; those of four warps reach all of it (W.
Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture")."""


def tensor_times(kernel: Kernel, target: Target, lossy: bool = False) -> dict[str, float]:
    """By sum of products that tensor cores of `target` can make: how many times the rate of its FMA units on float32
    they reach. A sum counts where no factor loses digits on the way; with `lossy` (DOWNCONVERT is allowed) also where
    float32 becomes tf32, or the type of 16 bits of the other factor. Empty for targets without tensor cores."""
    if not target.language.tensor_cores:
        return {}
    found: dict[str, float] = {}
    for n in flat(plain(kernel)):
        rates = [_products(row, target) for m, _, _ in places(n) for row in _rows(n, m, target, lossy)]
        if rates:
            found[n.name] = max(rates) / rates_of(target).float32
    return found


def _rows(nest: Nest, m: Node, target: Target, lossy: bool) -> Iterator[TensorRow]:
    """The rows that could make a sum of products with `m` along their axis m."""
    operands = sides(products(nest.expr)[0], m)
    for row in available(target):
        exact = takes(row, nest.expr.dtype, operands, target)
        if exact or (lossy and exact is False):
            yield row


def _products(row: TensorRow, target: Target) -> float:
    """How many products a multiprocessor of `target` adds in a cycle at most with operands of the row's types."""
    share = _WARP_SHARE.get(generation(target), 1.0) if row.unit == target.warp else 1.0
    return rate(row, target) * row.m * row.n * row.k / share


def unit(kernel: Kernel, target: Target, lossy: bool = False) -> str:
    """What does the kernel's arithmetic at the peak that its roofline counts: 'tensor cores' or 'FMA units'; '' for
    processors."""
    if target.kind != "gpu":
        return ""
    return "tensor cores" if tensor_times(kernel, target, lossy) else "FMA units"
