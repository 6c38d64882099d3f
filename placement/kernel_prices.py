"""Seconds of an operation's local part: what the schedule cache measured, else a neighbour's time, else the model. The plan says which."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .shard_graph import ShardOp, moved

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device

PEAK, BANDWIDTH = 5e10, 1e10
"""Operations and bytes a second that are assumed of a device whose limits were never measured."""


class KernelPrices:
    """Prices by kernels of `device` with `threads`. `sources`: how many local shapes were priced by each of 'exact',
    'nearest' and 'model'."""

    def __init__(self, device: Device, threads: int, cache: Cache) -> None:
        self._device, self._threads, self._cache = device, threads, cache
        self._known: dict[tuple[object, ...], float] = {}
        limits = device.limits()
        self._peak = PEAK if limits is None else limits.peak(threads)
        self._bandwidth = BANDWIDTH if limits is None else limits.bandwidth(threads)
        self.sources: Counter[str] = Counter()

    @property
    def balance(self) -> float:
        """Operations that the device does in the time of a byte."""
        return self._peak / self._bandwidth

    def __call__(self, op: ShardOp, local: Mapping[str, int]) -> float:
        """Seconds of an operation at its local extents."""
        product = product_shape(op, local)
        if product is None:
            share = math.prod(local.values()) / math.prod(op.axes.values())
            nbytes = moved(op, local)
            key: tuple[object, ...] = ("moved", nbytes, op.flops * share)
            if key not in self._known:
                self._known[key] = max(nbytes / self._bandwidth, op.flops * share / self._peak)
                self.sources["model"] += 1
            return self._known[key]
        batch, m, n, k = product
        if product not in self._known:
            self._known[product] = batch * self._matmul(m, n, k)
        return self._known[product]

    def _matmul(self, m: int, n: int, k: int) -> float:
        from ..heuristics import estimate
        from ..ir.normal_form import normalise
        from ..named_kernels import make
        from ..opts import apply
        from ..plan import resolve

        kernel = make("matmul", {"m": m, "n": n, "k": k}, "float32")
        found = resolve(kernel, self._device, self._threads, self._cache, start="quick")
        if found.row is not None and found.row.t_med is not None and found.origin in ("exact", "stale"):
            self.sources["exact"] += 1
            return found.row.t_med
        near = {} if found.row is None else found.row.shape_dict
        if found.row is not None and found.row.t_med is not None and {"m", "n", "k"} <= near.keys():
            self.sources["nearest"] += 1
            return found.row.t_med * (m * n * k) / (near["m"] * near["n"] * near["k"])
        self.sources["model"] += 1
        return estimate(apply(normalise(kernel), found.opts, self._device.target), self._threads, self._device.limits())


def product_shape(op: ShardOp, local: Mapping[str, int]) -> tuple[int, int, int, int] | None:
    """(batch, m, n, k) of an operation that is a product of two arrays; None for others."""
    if op.whole or not op.flops or len(op.reads) != 2 or not op.summed:
        return None
    a, b, out = ({*dims} for _, dims in (*op.reads, op.writes))
    sizes = [1, 1, 1, 1]
    for axis, extent in local.items():
        where = 3 if axis not in out else 0 if axis in a and axis in b else 1 if axis in a else 2
        sizes[where] *= extent
    return sizes[0], sizes[1], sizes[2], sizes[3]
