"""STAGE: what one iteration of a loop uses is kept: a tile of an input, a pointwise value, or an output until it is done."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir.buffer import loads
from ...ir.errors import OptError
from ...ir.node import Node
from ..analysis.structure import contractions, extent, stageable_values
from ..builder import ScheduleBuilder
from ..memory_limits import check_stages
from ..neighbourhood import Neighbourhood
from ..nests import Nest
from ..opt import Opt, Opts, opt
from ..plans import ONCE
from ..registry import Doc, Golden, Option
from ..schedule import Scheduled
from ..staging import MOST, check_depths, plan_stage
from .axes import MATMUL

TOGETHER = (128, 256, 512)
"""Blocks of a reduction whose panel is packed."""
SHARED = (8, 16, 32, 64)
"""Blocks of a reduction whose operands threads keep in shared memory."""
DEPTHS = (2, 3, 4)
"""Slots of their tiles, where the next ones are copied while one is used."""


def act(s: ScheduleBuilder, o: Opt) -> None:
    """Note what is kept where: of an input, `finish` plans the tile once all loops are known."""
    f = o.fields
    if not isinstance(f["depth"], int) or not 1 <= f["depth"] <= MOST:
        raise OptError(f"{o}: depth is the number of slots of a tile, 1 to {MOST}")
    if f["order"] not in ("panel", "row"):
        raise OptError(f"{o}: order must be panel or row, not {f['order']!r}")
    swizzle = f["swizzle"]
    assert isinstance(swizzle, int)
    if swizzle and (f["pad"] or swizzle not in (2, 4, 8, 16, 32)):
        raise OptError(f"{o}: swizzle is 2, 4, 8, 16 or 32 rows, and without pad")
    if isinstance(f["pad"], int) and not 0 <= f["pad"] <= 256:
        raise OptError(f"{o}: pad must be between 0 and 256 elements")
    if o.on in s.input_stages or o.on in s.value_stages or o.on in s.held:
        raise OptError(f"{o}: {o.on} is staged already")
    buffer = next((b for b in s.kernel.buffers if b.name == o.on), None)
    if buffer is not None and buffer.role == "in":
        if not buffer.shape:
            raise OptError(f"{o}: {o.on} is one element, which stays in a register")
        s.input_stages[o.on] = o
    elif buffer is not None:
        if sum(store.buffer == buffer for store in s.kernel.stores) > 1:
            raise OptError(f"{o}: several stores write parts of {o.on}, which make no one tile; stage what they read instead")
        s.held.add(o.on)
        s.value_stages[o.on] = (str(f["at"]), False)
    elif o.on in s.kernel.values:
        v = s.kernel.values[o.on]
        if not isinstance(v.expr, Node):
            raise OptError(f"{o}: {o.on} is a {type(v.expr).__name__.lower()}, which is always kept; stage pointwise values or buffers")
        s.value_stages[o.on] = (str(f["at"]), True)
    else:
        names = [b.name for b in s.kernel.buffers] + [n for n, v in s.kernel.values.items() if isinstance(v.expr, Node)]
        raise OptError(f"{o}: no buffer or pointwise value {o.on!r} (there are: {', '.join(names)})")


def finish(s: Scheduled, b: ScheduleBuilder) -> Scheduled:
    """The tiles of inputs; in the order of the buffers, not of the options, so that equal schedules are laid out alike."""
    s = replace(s, stages={x.name: plan_stage(s, b.input_stages[x.name]) for x in s.kernel.inputs if x.name in b.input_stages})
    check_depths(s.stages)
    check_stages(s)
    return s


def check(s: Scheduled) -> None:
    """Raise OptError where a kept value or output is kept in a loop that its readers do not share."""
    read: dict[str, list[Nest]] = {}
    for nest in s.nests:
        for n in nest.all_nodes:
            if n.op == "ref":
                read.setdefault(n.arg, []).append(nest)
    for name, at in s.value_stages.items():
        users = [n for n in s.nests if name in n.fills or n.name == name] + read.get(name, [])
        if not users:
            raise OptError(f"STAGE({name}): nothing reads it")
        shared = [p.name for p in s.loops(users[0]) if all(p.name in {q.name for q in s.loops(u)} for u in users)]
        grid_ok = at == "grid" and not shared
        if name in s.held and at not in {p.name for p in s.loops(users[0])}:
            raise OptError(f"STAGE({name}, at={at}): it is stored in the loops {', '.join(p.name for p in s.loops(users[0])) or 'none'}")
        if name not in s.held and at not in shared and not grid_ok:
            raise OptError(f"STAGE({name}, at={at}): its uses share the loops {', '.join(shared) or 'none'}; stage it at one of them")


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Tiles of inputs, kept values, outputs, and blocks of reductions with the tiles they pay with."""
    yield from dict.fromkeys(x for one in (_inputs, _values, _outputs) for x in one(near))
    yield from _shared_blocks(near)
    yield from _packed_blocks(near)


def _free(near: Neighbourhood, name: str) -> bool:
    return ("STAGE", name) not in near.taken


def _inputs(near: Neighbourhood) -> Iterator[Opts]:
    s = near.schedule
    for b in near.kernel.inputs:
        if not _free(near, b.name):
            continue
        if b.constant and near.target.lang in ("llvm", "c"):
            yield (opt("STAGE", b.name, at=ONCE),)
        for n in s.nests:
            if not near.reads(n, b):
                continue
            loops = s.loops(n)
            grid = [p for p in loops if p.kind == "grid"]
            for p in [*grid[-1:], *(q for q in loops if q.kind != "grid")][:4]:
                yield (opt("STAGE", b.name, at=p.name),)
                yield (opt("STAGE", b.name, at=p.name, order="row"),)
                if s.group > 1:  # in shared memory: with padded rows, or swizzled ones
                    yield (opt("STAGE", b.name, at=p.name, order="row", pad=1),)
                    yield (opt("STAGE", b.name, at=p.name, order="panel", pad=4),)
                    yield (opt("STAGE", b.name, at=p.name, swizzle=8),)
                    if p.kind != "grid":  # filled again and again: the next tile while this one is used
                        yield (opt("STAGE", b.name, at=p.name, order="row", depth=2),)


def _values(near: Neighbourhood) -> Iterator[Opts]:
    s = near.schedule
    for v in stageable_values(near.kernel):
        if _free(near, v):
            yield from ((opt("STAGE", v, at=p.name),) for p in s.grid[-1:] or s.loops(s.nests[-1])[:1])


def _outputs(near: Neighbourhood) -> Iterator[Opts]:
    s = near.schedule
    for b in near.kernel.outputs:
        parts = sum(store.buffer == b for store in near.kernel.stores)
        for n in s.nests if parts == 1 and _free(near, b.name) else ():
            if n.store is not None and n.kind == "store" and n.store.buffer == b:
                yield from ((opt("STAGE", b.name, at=p.name),) for p in [*s.grid[-1:], *(q for q in s.loops(n) if q.kind == "serial")][:2])


def _packed_blocks(near: Neighbourhood) -> Iterator[Opts]:
    """Options that only pay together: block a reduce axis outside the tile it feeds, and pack the block."""
    s = near.schedule
    for c in contractions(near.kernel):
        k = max(c.reduce, key=extent)
        if s.plans[k].tiles or not _free(near, c.wide.name):
            continue
        nest = next((n for n in s.nests if n.name == c.nest.name), None)
        loops = [p for p in s.loops(nest) if p.kind == "serial" and p.axis in nest.axes] if nest is not None else []
        for block in TOGETHER:
            if block < extent(k) and loops:
                yield (
                    opt("TILE", k.arg.name, block),
                    opt("MOVE", k.arg.name, before=loops[0].name),
                    opt("STAGE", c.wide.name, at=k.arg.name),
                )


def _shared_blocks(near: Neighbourhood) -> Iterator[Opts]:
    """A block of a reduce axis with both operands staged for it, where threads share them."""
    s = near.schedule
    for n in s.nests if near.target.simt and s.group > 1 else ():
        if n.kind != "reduce":
            continue
        buffers = list(dict.fromkeys(b for b, _, _ in loads(*n.evaluated) if _free(near, b.name)))
        k = max(n.reduce_axes, key=extent, default=None)
        if k is None or not buffers or s.plans[k].tiles:
            continue
        for block in SHARED:
            if s.plans[k].block <= block < extent(k):
                for depth in (1, *DEPTHS):
                    yield (opt("TILE", k.arg.name, block), *(opt("STAGE", b.name, at=k.arg.name, depth=depth) for b in buffers))


STAGE = Option(
    name="STAGE",
    letter="S",
    on="tensor",
    arg={"at": str, "order": str, "pad": int, "swizzle": int, "depth": int},
    defaults={"order": "panel", "pad": 0, "swizzle": 0, "depth": 1},
    short=(("@", "at"), ("/", "order"), ("+", "pad"), ("^", "swizzle"), ("x", "depth")),
    loop_fields=("at",),
    choices={"order": ("panel", "row"), "pad": (0, 1, 4, 8, 16), "swizzle": (0, 4, 8), "depth": (1, *DEPTHS)},
    kind="stage",
    legend="stage",
    docs=(
        Doc(
            "STAGE(input, at=loop, order=panel|row, pad=0)",
            "Copy the part of an input that one iteration of a loop uses. `panel` copies it in the order in which "
            "it will be read, with register copies innermost (packing). `row` copies the box of the buffer, with "
            "padded rows.",
        ),
        Doc(
            "STAGE(input, at=once, pad=0)",
            "Pack the whole of a *constant* input into a panel at the first call with an array. Later calls read "
            "the panel, so packing costs them nothing ([below](#constant-inputs)).",
        ),
        Doc(
            "STAGE(value, at=loop)",
            "Keep a pointwise value, so that it need not be computed where it is used ([below](#kept-values)).",
        ),
        Doc(
            "STAGE(output, at=loop)",
            "Accumulate in scratch memory and not in the output.",
        ),
        Doc(
            "STAGE(input, at=loop, order, pad, swizzle, depth)",
            "The group keeps the box of the input that its threads touch in shared memory. The threads copy it "
            "together, and neighbours read neighbouring words. `row` keeps the dimensions in the buffer's order. "
            "`panel` puts first those that are reduced over, so that a thread reads its register tile as vectors. "
            "`pad` adds elements to a row. `swizzle=w` lets 16-byte chunks of a row change places, by XOR with "
            "the row's number mod w; of a panel whose rows are turned, by the number of the rows that one copy fills. "
            "`depth=d` keeps d tiles: while the threads compute with one, the next are copied. On GPUs that have "
            "asynchronous copies up to d − 1 of them are under way, in pieces of 4, 8 or 16 bytes that are known to be "
            "aligned; elsewhere d is 2, and threads hold the next tile in registers. All tiles of a loop with more than "
            "one slot have as many.",
            groups=True,
        ),
        Doc(
            "STAGE(value)",
            "The thread keeps the value where every reader wants just what its own thread made. Else it is in shared memory.",
            groups=True,
        ),
    ),
    golden={
        "stage_panel": Golden(*MATMUL, [["UPCAST", "n", 16], ["PARALLEL", "n"], ["STAGE", "b", {"at": "n"}]]),
        "stage_once": Golden("matmul:constant=b", MATMUL[1], [["UPCAST", "n", 16], ["PARALLEL", "n"], ["STAGE", "b", {"at": "once"}]]),
        "stage_row": Golden(*MATMUL, [["UPCAST", "n", 16], ["STAGE", "a", {"at": "m", "order": "row", "pad": 16}]]),
        "stage_value": Golden("softmax", {"m": 4, "n": 32}, [["UPCAST", "n", 16], ["PARALLEL", "m"], ["STAGE", "e", {"at": "m"}]]),
        "stage_output": Golden(
            "transpose", {"m": 16, "n": 16}, [["UPCAST", "m", 8], ["UPCAST", "n", 8], ["PARALLEL", "n"], ["STAGE", "y", {"at": "n"}]]
        ),
    },
    act=act,
    finish=finish,
    check=check,
    propose=propose,
    outlives_call=lambda o: o.fields["at"] == ONCE,
)
