"""The analytic model for GPUs: good enough to rank candidates before anything is built.

Each thread's instructions are counted as lowering will emit them, and set against the issue rate of a multiprocessor, its shared
memory and the bandwidth of L2 and memory. What is resident at once follows from registers, threads and shared memory a group
(Volkov, "Better Performance at Lower Occupancy", 2010: independent instructions of one thread hide latency as threads do)."""

from __future__ import annotations

from ...ir import index as ix
from ...ir.buffer import load_parts
from ...ir.dtypes import index
from ...ir.node import Node, axes_of, walk
from ...opts.axis_plan import Part
from ...opts.nests import Nest
from ...opts.schedule import Scheduled

CLOCK = 1.6e9
ISSUE = 128.0
"""Thread instructions a multiprocessor issues in a cycle."""
SHARED_BYTES = 128.0
"""Bytes of shared memory a multiprocessor reads in a cycle."""
L2_BYTES, DRAM_BYTES = 24.0, 14.0
"""Bytes a cycle for each multiprocessor."""
LATENCY = 28.0
"""Cycles from one dependent instruction to the next, a shared-memory read between."""
LAUNCH = 4e-6
"""Seconds to launch a phase."""
COST = {"exp": 12.0, "log": 14.0, "tanh": 22.0, "erf": 24.0, "div": 8.0, "sqrt": 8.0}
SECTOR = 32


def estimate_gpu(s: Scheduled) -> float:
    """Predicted seconds. Symbolic extents count with their upper bounds."""
    if s.phases:
        return sum(estimate_gpu(p) for p in s.phases)
    items = 1
    for p in s.grid:
        items *= p.trips
    registers = min(255.0, 24.0 + max((_live(s, n) for n in s.nests), default=0.0))
    spill = max(0.0, 24.0 + max((_live(s, n) for n in s.nests), default=0.0) - (s.regs or 255))
    shared = sum(st.bytes for st in s.stages.values()) if s.group > 1 else 0
    resident = max(1, min(32, 65536 // int(registers * max(32, s.group)), 2048 // max(32, s.group), (s.target.shared or 1 << 20) // max(1, shared)))
    waves = -(-items // (resident * s.target.cores))
    at_once = min(items, resident * s.target.cores)
    busy = min(1.0, items / s.target.cores)
    warps = resident * max(1.0, s.group / 32)
    idle = 32 / s.group if s.group < 32 else 1.0  # a warp has 32 lanes, whether they work or not
    instructions = tile = global_bytes = 0.0
    for n in s.nests:
        i, t, g = _nest(s, n)
        instructions, tile, global_bytes = instructions + i, tile + t, global_bytes + g
    for st in s.stages.values():
        fills = 1.0
        for p in s.loops(st.nests[0]):
            if p.kind != "grid" and s.position[p.name] <= s.position.get(st.at.name, -1):
                fills *= p.trips
        global_bytes += fills * st.bytes / s.group
        tile += fills * st.bytes / s.group
        instructions += fills * (3.0 * st.elements / s.group / 2 + 4)
    instructions += 4 * spill
    ilp = max((_independent(s, n) for n in s.nests), default=1.0)
    hidden = min(1.0, warps * min(8.0, ilp) / LATENCY)
    group = s.group * resident
    compute = group * instructions * idle / (ISSUE * hidden)
    memory = max(group * tile / SHARED_BYTES, group * global_bytes / (L2_BYTES * min(1.0, 0.25 + warps * ilp / 16)))
    total = s.group * items * global_bytes
    needed = min(total, 1.0 * sum(_bytes(s, b) for b in range(len(s.kernel.buffers)))) if total < 32 * s.target.l2 else total / 2
    dram = needed / (DRAM_BYTES * s.target.cores * max(0.05, min(1.0, at_once * s.group / (s.target.cores * 512))))
    return (waves * max(compute, memory) / max(busy, 0.01) * busy + dram) / CLOCK + LAUNCH


def _bytes(s: Scheduled, i: int) -> float:
    size = float(s.kernel.buffers[i].dtype.size)
    for d in s.kernel.buffers[i].shape:
        size *= d if isinstance(d, int) else ix.bounds(d)[1]
    return size


def _live(s: Scheduled, n: Nest) -> float:
    out = 1.0
    for p in s.registers(n):
        if p.axis in n.axes or p.kind == "upcast":
            out *= p.trips
    return out * 1.25


def _independent(s: Scheduled, n: Nest) -> float:
    out = 1.0
    for p in s.registers(n):
        out *= p.trips if p.kind == "upcast" else 1
    return out


def _nest(s: Scheduled, n: Nest) -> tuple[float, float, float]:
    """(instructions, bytes of shared memory, bytes of global memory in whole sectors) of one thread."""
    regs = s.registers(n)
    times = 1.0
    for p in s.loops(n):
        times *= p.trips if p.kind != "grid" else 1
    instructions, tile, memory = 2.0, 0.0, 0.0

    def copies(node: Node) -> float:
        axes, out = axes_of(node), 1.0
        for p in regs:
            out *= p.trips if p.axis in axes else 1
        return out

    for e in walk(*n.roots):
        if e.op in ("const", "axis", "sym", "ref") or e.dtype is index:
            continue
        k = copies(e)
        if e.op == "load":
            buffer, indices, _ = load_parts(e)
            st = s.stages.get(buffer.name)
            if st is not None and any(m is n for m in st.nests):
                # a vector read is one instruction, and the halves of a warp share some of what it brings; a word that all ask for still
                # takes the whole width of the memory
                vector = any(p.kind == "upcast" and p.axis in axes_of(e) and p.trips >= 4 for p in regs)
                instructions += k / (4 if vector else 1)
                tile += k * buffer.dtype.size * (0.5 if vector else 1.0)
            else:
                instructions += k / 2
                memory += k * _sectors(s, indices, buffer.shape, buffer.dtype.size, regs)
        elif not (e.op == "mul" and e is n.expr and n.kind == "reduce"):
            instructions += k * COST.get(e.op, 1.0)
    if n.kind == "reduce":
        work = 1.0
        for p in regs:
            work *= p.trips
        instructions += work
        shares = [t for t in s.threads if any(a.arg.family == t.family for a in n.reduce_axes)]
        outer = times
        for p in s.loops(n):
            outer /= p.trips if p.axis in n.reduce_axes and p.kind != "grid" else 1
        for t in shares:
            instructions += 4.0 * t.count.bit_length() * outer / max(times, 1.0) * _live(s, n)
    if n.store is not None:
        k = copies(n.indices[-1]) if n.indices else 1.0
        k = max(k, *(copies(i) for i in n.indices)) if n.indices else 1.0
        instructions += k
        memory += k * _sectors(s, n.indices, n.store.buffer.shape, n.store.buffer.dtype.size, regs)
    return instructions * times, tile * times, memory * times


def _sectors(s: Scheduled, indices: tuple[Node, ...], shape: tuple[int | Node, ...], size: int, regs: list[Part]) -> float:
    """Bytes moved for one element: whole sectors where neighbouring threads do not touch neighbouring words."""
    total: dict[Node, int] = {}
    stride = 1
    for i, d in zip(reversed(indices), reversed(shape)):
        for t, k in ix.parts(s.at_parts(i))[0].items():
            total[t] = total.get(t, 0) + k * stride
        stride *= d if isinstance(d, int) else ix.bounds(d)[1]
    vector = next((p.trips for p in regs if p.kind == "upcast" and total.get(p.var) == 1), 1)
    if not s.threads:
        return float(size) if vector * size >= SECTOR else float(SECTOR) / vector
    step = total.get(s.threads[0].var, 0)
    if step == 0:
        return size / 8.0
    reach = step * size / vector if vector > 1 and step == vector else step * size
    return float(min(SECTOR / vector if vector > 1 else SECTOR, max(size, reach)))
