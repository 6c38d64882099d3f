"""How many groups are resident on a multiprocessor: what registers, shared memory and threads leave room for."""

from __future__ import annotations

from math import prod

from ....ir.buffer import load_parts
from ....ir.dtypes import index
from ....ir.node import axes_of
from ....opts.nests import Nest
from ....opts.schedule import Scheduled
from ...gpu_machine import Gpu
from ...machine import SLOW
from .chip import Chip
from .kept import kept_arrays


def thread_registers(s: Scheduled, chip: Chip) -> float:
    """Registers that a thread wants: for addresses, for the accumulators and operands of the nest that has most, and
    for values that wait in registers for a later nest."""
    g = chip.costs
    kept = {name: _words(s, n, chip) for n in s.nests for name in n.made if name in s.tree.registers}
    most = 0.0
    for n in s.nests:
        waiting = sum(w for name, w in kept.items() if name not in n.made)
        most = max(most, _live(s, n, chip) + waiting + _ahead(s, n, chip))
    small = sum(k.registers for k in kept_arrays(s).values())
    return g.base_registers + g.address_registers * len(s.kernel.buffers) + most + small


def _words(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Registers for the results of a nest that one thread holds."""
    each = max(1.0, n.expr.dtype.compute.size / chip.costs.word)
    return each * prod(p.trips for p in s.registers(n) if p.axis in n.axes)


def _live(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Accumulators, and the operands of one step."""
    regs, each = s.registers(n), max(1.0, n.expr.dtype.compute.size / chip.costs.word)
    held = prod(p.trips for p in regs if p.axis in n.axes or p.kind == "upcast")
    t = s.tensors.get(n.name)
    if t is not None:
        words = [t.row.elements(o) * d.size / chip.costs.word for o, d in (("a", t.row.a), ("b", t.row.b), ("c", t.row.c))]
        tiles = [
            prod(p.trips for p in regs if p.axis is a) / prod(x.count for x in t.row.c_parts if x.axis == letter and x.kind != "thread")
            for letter, a in (("m", t.m), ("n", t.n))
        ]
        if t.row.unit > chip.costs.warp:  # operands stay in shared memory
            return tiles[0] * tiles[1] * words[-1]
        # fragments of a step along the reduction are loaded while those before are used
        return tiles[0] * tiles[1] * words[-1] + (1 + 1) * (tiles[0] * words[0] + tiles[1] * words[1])
    if n.kind != "reduce":  # each element is finished before the next, but for what is loaded ahead
        return each * min(held, chip.costs.loaded)
    sides = sum(p.trips for p in regs if p.axis in n.axes and p.kind == "upcast")
    return each * (held + sides)


def _ahead(s: Scheduled, n: Nest, chip: Chip) -> float:
    """Registers for what a loop over memory loads ahead, where the compiler spells it out."""
    g = chip.costs
    far = any(load_parts(x)[0].name not in s.stages for x in n.loads)
    loops = [p.trips for p in s.loops(n) if p.kind != "grid"]
    return g.loaded * min(g.access / g.word, max(loops[-1] / g.loaded, 1.0)) if far and loops and n.kind == "reduce" else 0.0


def group_shared(s: Scheduled) -> int:
    """Bytes of shared memory of a group's tiles and kept values."""
    tiles = sum(st.bytes for st in s.stages.values()) if s.group > 1 else 0
    return tiles + int(sum(k.shared for k in kept_arrays(s).values()))


def resident_groups(s: Scheduled, chip: Chip, registers: float) -> int:
    """Groups that are resident on a multiprocessor at once, one at least."""
    g = chip.costs
    threads = -(-max(1, s.group) // g.warp) * g.warp
    each = -(-int(min(registers, s.launch.registers or g.registers)) // g.unit) * g.unit
    shared = group_shared(s) + g.reserved
    return max(1, min(chip.groups, g.file // (each * threads), chip.threads // threads, chip.shared // shared))


def statements(s: Scheduled, g: Gpu) -> float:
    """Instructions of the text, about: what a compiler has to read, and takes time for."""
    total = 0.0
    for n in s.nests:
        regs = s.registers(n)
        t = s.tensors.get(n.name)
        if t is not None:
            held = [p.trips for p in regs if p.kind != "dot"]
            total += prod(held) * t.row.unit / (t.row.m * t.row.n)
            continue
        for e in n.all_nodes:
            if e.op not in ("const", "axis", "sym", "ref") and e.dtype is not index:
                axes = axes_of(e)
                total += prod(p.trips for p in regs if p.axis in axes) * (getattr(g, SLOW[e.op]) if e.op in SLOW else 1.0)
        if n.kind == "reduce":
            total += prod(p.trips for p in regs)
    return total
