"""The analytic model for GPUs: good enough to rank candidates before anything is built.

Each thread's instructions are counted as lowering will emit them, and set against the issue rate of a multiprocessor, its shared
memory and the bandwidth of L2 and memory. What is resident at once follows from registers, threads and shared memory a group
(Volkov, "Better Performance at Lower Occupancy", 2010: independent instructions of one thread hide latency as threads do). What anything
costs is data: `machine.Gpu`."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...ir import index as ix
from ...ir.buffer import Buffer, load_parts
from ...ir.dtypes import index
from ...ir.node import Node, axes_of
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.plans import StagePlan
from ...opts.schedule import Scheduled
from ..machine import DEFAULT, SLOW, Gpu, MachineModel


@dataclass(frozen=True, slots=True)
class ThreadWork:
    """What one thread does: instructions, bytes of shared memory, and bytes of global memory in whole sectors."""

    instructions: float = 0.0
    tile: float = 0.0
    memory: float = 0.0

    def __add__(self, other: ThreadWork) -> ThreadWork:
        return ThreadWork(self.instructions + other.instructions, self.tile + other.tile, self.memory + other.memory)


def estimate_gpu(s: Scheduled, machine: MachineModel = DEFAULT) -> float:
    """Predicted seconds. Symbolic extents count with their upper bounds."""
    g = machine.gpu
    if s.phases:
        return sum(estimate_gpu(p, machine) for p in s.phases)
    items = 1
    for p in s.grid:
        items *= p.trips
    resident = _resident(s, g)
    waves = -(-items // (resident * s.target.cores))
    at_once = min(items, resident * s.target.cores)
    busy = min(1.0, items / s.target.cores)
    warps = resident * max(1.0, s.group / g.warp)
    partial = g.warp / s.group if s.group < g.warp else 1.0  # all lanes of a warp take their turn, whether they work or not
    work = ThreadWork()
    for n in s.nests:
        work += _nest(s, n, g)
    for st in s.stages.values():
        work = _filled(s, st, work, g)
    spill = max(0.0, _registers(s, g) - (s.regs or g.registers))
    instructions = work.instructions + g.spill * spill
    ilp = max((_independent(s, n) for n in s.nests), default=1.0)
    hidden = min(1.0, warps * min(g.independent, ilp) / g.latency)
    group = s.group * resident
    compute = group * instructions * partial / (g.issue * hidden)
    memory = max(group * work.tile / g.shared, group * work.memory / (g.l2 * min(1.0, g.l2_start + warps * ilp / g.l2_warps)))
    total = s.group * items * work.memory
    needed = min(total, 1.0 * sum(_bytes(b) for b in s.kernel.buffers)) if total < g.cached * s.target.l2 else total / g.missed
    dram = needed / (g.dram * s.target.cores * max(g.least, min(1.0, at_once * s.group / (s.target.cores * g.dram_threads))))
    return (waves * max(compute, memory) / max(busy, g.least_busy) * busy + dram) / g.clock + g.launch


def _registers(s: Scheduled, g: Gpu) -> float:
    """Registers that a thread wants."""
    return g.base_registers + max((_live(s, n, g) for n in s.nests), default=0.0)


def _resident(s: Scheduled, g: Gpu) -> int:
    """Groups that are resident on a multiprocessor at once."""
    registers = min(g.registers, _registers(s, g))
    shared = sum(st.bytes for st in s.stages.values()) if s.group > 1 else 0
    threads = max(g.warp, s.group)
    return max(
        1, min(g.groups, g.file // int(registers * threads), g.threads // threads, (s.target.shared or g.unlimited) // max(1, shared))
    )


def _filled(s: Scheduled, st: StagePlan, work: ThreadWork, g: Gpu) -> ThreadWork:
    """`work`, with filling a staged tile."""
    fills = 1.0
    for p in s.loops(st.nests[0]):
        if p.kind != "grid" and s.position[p.name] <= s.position.get(st.at.name, -1):
            fills *= p.trips
    moved = fills * st.bytes / s.group
    copied = fills * (g.copied * st.elements / s.group / g.pair + g.barrier)
    return work + ThreadWork(copied, moved, moved)


def _bytes(buffer: Buffer) -> float:
    size = float(buffer.dtype.size)
    for d in buffer.shape:
        size *= ix.upper(d)
    return size


def _live(s: Scheduled, n: Nest, g: Gpu) -> float:
    out = 1.0
    for p in s.registers(n):
        if p.axis in n.axes or p.kind == "upcast":
            out *= p.trips
    return out * g.operand_registers


def _independent(s: Scheduled, n: Nest) -> float:
    out = 1.0
    for p in s.registers(n):
        out *= p.trips if p.kind == "upcast" else 1
    return out


def _nest(s: Scheduled, n: Nest, g: Gpu) -> ThreadWork:
    """The work of one thread in a nest."""
    times = 1.0
    for p in s.loops(n):
        times *= p.trips if p.kind != "grid" else 1
    work = _evaluated(s, n, g)
    if n.kind == "reduce":
        work += ThreadWork(float(prod(p.trips for p in s.registers(n))))
        work += ThreadWork(_shared_sums(s, n, times, g))
    if n.store is not None:
        k = max(_copies(s, n, i) for i in n.indices) if n.indices else 1.0
        work += ThreadWork(k, 0.0, k * _sectors(s, n, (n.indices, n.store.buffer), g))
    return ThreadWork(work.instructions * times, work.tile * times, work.memory * times)


def _copies(s: Scheduled, n: Nest, node: Node) -> float:
    """How often `node` is computed by one thread."""
    axes, out = axes_of(node), 1.0
    for p in s.registers(n):
        out *= p.trips if p.axis in axes else 1
    return out


def _evaluated(s: Scheduled, n: Nest, g: Gpu) -> ThreadWork:
    """The expressions of a nest, once for each assignment of its register parts."""
    instructions, tile, memory = g.overhead, 0.0, 0.0
    for e in n.nodes:
        if e.op in ("const", "axis", "sym", "ref") or e.dtype is index:
            continue
        k = _copies(s, n, e)
        if e.op == "load":
            buffer, indices, _ = load_parts(e)
            st = s.stages.get(buffer.name)
            if st is not None and any(m is n for m in st.nests):
                # a vector read is one instruction, and the halves of a warp share some of what it brings; a word that all ask for still
                # takes the whole width of the memory
                vector = any(p.kind == "upcast" and p.axis in axes_of(e) and p.trips >= g.vector for p in s.registers(n))
                instructions += k / (g.vector if vector else 1)
                tile += k * buffer.dtype.size * (g.vector_share if vector else 1.0)
            else:
                instructions += k / g.pair
                memory += k * _sectors(s, n, (indices, buffer), g)
        elif not (e.op == "mul" and e is n.expr and n.kind == "reduce"):
            instructions += k * (getattr(g, SLOW[e.op]) if e.op in SLOW else 1.0)
    return ThreadWork(instructions, tile, memory)


def _shared_sums(s: Scheduled, n: Nest, times: float, g: Gpu) -> float:
    """Instructions, an iteration, to combine the partial results of threads that share a reduction."""
    shares = [t for t in s.threads if any(a.arg.family == t.family for a in n.reduce_axes)]
    outer = times
    for p in s.loops(n):
        outer /= max(1, p.trips) if p.axis in n.reduce_axes and p.kind != "grid" else 1
    return sum(g.combined * t.count.bit_length() * outer / max(times, 1.0) * _live(s, n, g) for t in shares)


def _sectors(s: Scheduled, n: Nest, access: tuple[tuple[Node, ...], Buffer], g: Gpu) -> float:
    """Bytes moved for one element of an access (indices, buffer): whole sectors where neighbouring threads do not
    touch neighbouring words."""
    indices, buffer = access
    size, total, stride = buffer.dtype.size, dict[Node, int](), 1
    for i, d in zip(reversed(indices), reversed(buffer.shape)):
        for t, k in s.terms(i).items():
            total[t] = total.get(t, 0) + k * stride
        stride *= ix.upper(d)
    vector = _vector(s.registers(n), total)
    if not s.threads:
        return float(size) if vector * size >= g.sector else float(g.sector) / vector
    step = total.get(s.threads[0].var, 0)
    if step == 0:
        return size / g.broadcast
    reach = step * size / vector if vector > 1 and step == vector else step * size
    return float(min(g.sector / vector if vector > 1 else g.sector, max(size, reach)))


def _vector(regs: list[Part], strides: dict[Node, int]) -> int:
    """Consecutive elements that one thread takes."""
    return next((p.trips for p in regs if p.kind == "upcast" and strides.get(p.var) == 1), 1)
