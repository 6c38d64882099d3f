"""The analytic model: seconds for a schedule, good enough to rank candidates before anything is built.

For each nest the instructions of its innermost body are counted exactly as lowering will emit them (`compute.py`:
each expression once for each assignment of the register parts it varies with), and set against issue width, load
ports, the latency of accumulator chains and the register file. Memory traffic (`traffic.py`) follows Wolf & Lam's
reuse argument: at each cache level, the outermost loop whose working set fits is the one whose data is fetched once. What fits a
cache with all its arrays is there from the call before.
The larger of compute and traffic counts. What anything costs is data: `machine.MachineModel`."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from itertools import takewhile
from statistics import fmean

from ...ir.buffer import load_parts
from ...opts.analysis.pages import buffer_bytes
from ...opts.analysis.ragged import share as share_reduced
from ...opts.analysis.triangles import share as share_ordered
from ...opts.fold_tiles import share as share_run
from ...opts.nests import FoldItem, Nest
from ...opts.schedule import Scheduled
from ..machine import DEFAULT, Bandwidth, MachineModel
from ..processors import machine_of
from .compute import compute_cycles
from .gpu.estimate import estimate_gpu
from .left_early import left_early
from .own import owned_work
from .traffic import Traffic
from .trips import trips
from .warm import Warm


def estimate(scheduled: Scheduled, threads: int = 1, limits: Bandwidth | None = None, machine: MachineModel | None = None) -> float:
    """Predicted seconds on `threads` threads of `machine` (the one of the schedule's target), whose bandwidth is that of `limits` where given.
    Symbolic extents count with their upper bounds."""
    if machine is None:  # (most instructions are counted from options as that Xeon takes them)
        mine = machine_of(scheduled.target.cpu)
        core = replace(DEFAULT.core, div=mine.core.div, sqrt=mine.core.sqrt)
        machine = replace(DEFAULT, core=core, caches=mine.caches, jumps=mine.jumps)
    if scheduled.target.kind == "gpu":
        return estimate_gpu(scheduled, machine, limits)
    phases = scheduled.phases or (scheduled,)
    arrays = {b.name: buffer_bytes(b.shape, b.dtype.size) for p in phases for b in p.kernel.buffers}
    dram = machine.caches.dram if limits is None else limits.bandwidth(1) / machine.core.clock
    asked, total = (float(sum(arrays.values())), threads, dram, machine), 0.0
    for p in phases:
        if (seconds := p.told.get(asked)) is None:
            seconds = p.told[asked] = _phase(p, *asked)
        total += seconds
    return total


def _phase(scheduled: Scheduled, whole: float, threads: int, dram: float, machine: MachineModel) -> float:
    """Seconds of a phase of a call that touches `whole` bytes; `dram`: bytes a cycle from memory."""
    clock, caches = machine.core.clock, machine.caches
    items = 1
    for p in scheduled.grid:
        items *= p.trips
    threads = max(1, min(threads, items))
    dram /= max(1.0, caches.scaling * threads)
    traffic = Traffic(scheduled, machine, dram, whole, threads)
    total = 0.0
    run = {n.name: part for i in scheduled.items if isinstance(i, FoldItem) for part in (share_run(scheduled, i),) for n in i.nests}
    warm = Warm(scheduled)
    for nest in scheduled.nests:
        compute, memory = _work(scheduled, nest, traffic, warm.since(nest))
        if nest.name in scheduled.rings:  # far caches are asked once for what blocks share, with or without a ring; near ones are not
            share = scheduled.rings[nest.name].computed
            compute, memory = compute * share, memory * fmean((1.0, share))
        again = trips(p for p in scheduled.grid if p.axis not in nest.all_axes)  # what every item computes for itself
        part = run.get(nest.name, share_reduced(scheduled, nest) * share_ordered(scheduled, nest))
        part *= left_early(scheduled, nest, machine.core)
        total += (max(compute, memory) + caches.unhidden * min(compute, memory)) * part * again
        warm.add(nest)
    total += sum(traffic.stage_cycles(name) for name in scheduled.stages)
    return total * _share(scheduled, items, threads) / clock + (
        caches.wake + items * caches.item if threads > 1 else items * caches.item_alone
    )


def _work(s: Scheduled, nest: Nest, traffic: Traffic, warm: Mapping[str, Set[str]]) -> tuple[float, float]:
    """(cycles of arithmetic, cycles of traffic) of a nest over all items, on one core."""
    compute = compute_cycles(s, nest, traffic.machine)
    if nest.kind == "store" and nest.store is not None and nest.store.own is not None:
        return owned_work(s, nest, compute, traffic.dram, traffic.machine.caches)
    group = s.together(nest)
    before = list(takewhile(lambda n: n is not nest, group)) if group[-1].store is None else []  # (with stores they count with the first)
    if before and {load_parts(n)[0] for n in nest.loads} <= {load_parts(n)[0] for m in before for n in m.loads}:
        return compute, traffic.asked(nest)  # what siblings read in the same loop
    # (the second cache is near: what comes from there again comes beside other work, for the most part)
    again = traffic.refetched(nest)
    again = max(0.0, again - compute) + traffic.machine.caches.unhidden * min(again, compute)
    return compute, traffic.cycles(nest, warm) + again


def _share(s: Scheduled, items: int, threads: int) -> float:
    """The part of the work that the busiest thread does."""
    rounds = -(-items // threads)
    whole = 1.0  # of an axis that does not divide, the last item is a small one, but the others take a round each
    for p in s.grid:
        extent = p.axis.arg.extent
        whole *= min(p.trips, extent / p.stride) if isinstance(extent, int) and extent else p.trips
    return rounds / whole if whole else 0.0  # (an empty axis has no items)
