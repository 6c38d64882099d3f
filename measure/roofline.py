"""How fast could it be? The least time that the memory or the arithmetic of this machine, tensor cores included, allows for a kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..devices.limits import CACHED, DOUBT, MEMORY, PEAKS
from ..ir import index as ix
from ..ir.dtypes import dtype
from ..ir.kernel import Kernel
from ..ir.node import Node, as_node
from ..opts.analysis.dot_instructions import at_once
from ..opts.nests import Nest, flat, plain
from ..opts.options.tc import product_axes
from ..opts.tensor_cores import products, sides, takes
from ..targets import Target
from ..targets.table import rates_of
from ..targets.tensor_rows import TensorRow, available, generation, rate

if TYPE_CHECKING:
    from ..devices import Limits
    from ..ir.cost import Cost

MOST_SETS = 256
"""Most sets of operands that timing rotates through."""
_FLOPS_PER_BYTE = 8.0
"""Below this intensity a kernel waits for memory on every processor of the last decade."""
CACHES = ("L1", "L2", "L3")
_NEGLIGIBLE = 0.02
"""Below this share of stores, a kernel's bandwidth is that of reading."""
SURE = 105.0
"""Above this share of a roofline, in %, it is the roofline that is wrong: limits measured while the machine was busy."""
_WARP_SHARE = {"hopper": 0.6}
"""The share of the tensor cores' rate that instructions of one warp reach; those of four warps reach all of it (W.
Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture")."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """`seconds`: a lower bound on one call; `bound`: what sets it: 'compute', or the `place` where the operands lie
    when calls are timed ('memory', 'L3', 'L2', 'L1'). `flops` includes the polynomials of elementary functions,
    `bytes` is the compulsory traffic; `peak` (operations a second, of the types that the kernel computes in, in its
    proportions) and `bandwidth` (bytes a second, of that memory or cache; 0 where nobody measured it) are the
    machine's limits for this kernel."""

    seconds: float
    bound: str
    flops: int
    bytes: int
    peak: float
    bandwidth: float
    place: str = "memory"
    spread: float = DOUBT
    """The share by which the limit behind the bound may be off."""

    def passed(self, t: float) -> bool:
        """Whether a call of `t` seconds says that the bound is wrong: it is shorter by more than the spread."""
        return t * (1.0 + self.spread) < self.seconds

    @property
    def facts(self) -> dict[str, float | str]:
        """What a row of the cache keeps, so that a report can draw the roof that was over the kernel."""
        return {
            "bound": self.bound,
            "peak": self.peak,
            "bandwidth": self.bandwidth,
            "flops": self.flops,
            "place": self.place,
            "spread": self.spread,
        }

    def percent(self, t: float) -> float:
        """Share of the bound that a call of `t` seconds reaches, in %."""
        return 100.0 * self.seconds / t


def share(percent: float, bound: str | None = None) -> str:
    """A share of a roofline for a reader: `87 %`, `41 % in L2` where operands stay in that cache, `187 %!` where the
    bound cannot be right."""
    return f"{percent:.0f} %{'!' if percent > SURE else ''}{f' in {bound}' if bound in CACHES else ''}"


def roofline(
    kernel: Kernel,
    limits: Limits,
    threads: int,
    vars: Mapping[str, int] | None = None,
    target: Target | None = None,
    rotating: bool = True,
    lossy: bool = False,
) -> Roofline:
    """max(compulsory bytes ÷ bandwidth, operations ÷ peak) at that thread count; operations are those of the cheapest
    order of contraction. The bandwidth is the best the machine showed for any kind of store where the operands lie. That is memory if timing rotates through twice the
    last-level cache, or without `target`; else it is what the machine showed for a set that is no larger, and the
    name is that of the smallest cache that could hold it. `rotating` false: each call has the same operands, which may
    stay in a cache. `lossy`: tensor cores may take operands with fewer digits (DOWNCONVERT). Limits without figures for caches give no such bound."""
    from ..heuristics import necessary
    from ..ir.cost import cost

    kernel = necessary(kernel)
    c = cost(kernel, dict(vars or {}))
    compute = _compute(kernel, c, (limits, threads), vars or {}, target, lossy)
    writes = c.writes > _NEGLIGIBLE * c.bytes
    bandwidth = limits.bandwidth(threads, writes=False)
    if writes:
        bandwidth = max(bandwidth, limits.bandwidth(threads, nt=False), limits.bandwidth(threads, nt=True))
    place, size = "memory", c.bytes * (rotations(kernel, vars or {}, target) if target is not None and rotating else 1)
    if target is not None and size < 2 * target.l3:
        place = next((name for name, most in zip(CACHES, (threads * target.l1, threads * target.l2), strict=False) if size <= most), "L3")
        cached = limits.cached(threads, size, writes)
        bandwidth = 0.0 if cached is None else max(cached, bandwidth)
    moving = c.bytes / bandwidth if bandwidth else 0.0
    flops = c.flops + c.poly_flops
    peak = flops / compute if compute else limits.peak(threads)
    spread = limits.spread_of(PEAKS if compute >= moving else MEMORY if place == "memory" else (CACHED,))
    return Roofline(max(compute, moving), place if moving > compute else "compute", flops, c.bytes, peak, bandwidth, place, spread)


def _compute(kernel: Kernel, c: Cost, here: tuple[Limits, int], vars: Mapping[str, int], target: Target | None, lossy: bool) -> float:
    """The least seconds of the arithmetic. Each operation counts at the FMA peak of its type; sums of products at
    that of the matrix instruction, or of the tensor cores, which fit them. Types of one unit add up; floating point and integers, which may
    run side by side, do not. Vectors hold as many more integers as these are narrower."""
    limits, threads = here
    left = dict(c.types)
    seconds = {True: 0.0, False: 0.0}
    env = {s: vars[s.arg.name] for s in kernel.symbols}
    fitting: dict[str, float] = {**at_once(kernel, target), **tensor_times(kernel, target, lossy)} if target is not None else {}
    for name, times in fitting.items():
        v = kernel.values[name]
        points = math.prod(ix.evaluate(as_node(a.arg.extent), env) for a in (*v.axes, *v.reduce_axes))
        work = min(2 * points, left.get(v.dtype.name, 0))
        left[v.dtype.name] = left.get(v.dtype.name, 0) - work
        seconds[v.dtype.is_float] += work / (limits.peak(threads, v.dtype) * times)
    for name, work in left.items():
        t = dtype(name)
        narrow = 1.0 if t.is_float else max(1.0, 4 / t.size)
        seconds[t.is_float] += work / (limits.peak(threads, t) * narrow)
    return max(seconds.values())


def rotations(kernel: Kernel, vars: Mapping[str, int], target: Target, computing: bool = False) -> int:
    """How many sets of operands timing rotates through, so that a memory-bound kernel finds nothing in the last-level cache: enough
    for 2 × L3, at most 256. 1 for kernels that compute, unless these are asked for too (`computing`)."""
    from ..ir.cost import cost

    c = cost(kernel, dict(vars))
    if not computing and c.flops + c.poly_flops > _FLOPS_PER_BYTE * c.bytes:
        return 1
    return max(1, min(MOST_SETS, math.ceil(2 * target.l3 / max(c.bytes, 1))))


def tensor_times(kernel: Kernel, target: Target, lossy: bool = False) -> dict[str, float]:
    """By sum of products that tensor cores of `target` can make: how many times the rate of its FMA units on float32
    they reach. A sum counts where no factor loses digits on the way; with `lossy` (DOWNCONVERT is allowed) also where
    float32 becomes tf32, or the type of 16 bits of the other factor. Empty for targets without tensor cores."""
    if not target.language.tensor_cores:
        return {}
    found: dict[str, float] = {}
    for n in flat(plain(kernel)):
        rates = [_products(row, target) for m, _, _ in product_axes(n) for row in _rows(n, m, target, lossy)]
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
