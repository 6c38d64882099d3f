"""Readable, deterministic text of a Program: names are numbered by first appearance, so equal Programs print alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Any

from ..ir.node_text import number
from ..ir.node_text import show as show_node
from .ops import HOPPER, SIGNS, WRITES
from .program import AsyncCopy, Block, For, If, Instr, Mem, Phase, Program, Roles, Stmt, Val, statements


@dataclass
class Names:
    """Names that several texts of one Program share, so that a value is called the same in all of them."""

    of: dict[Val, str] = field(default_factory=dict)
    count: int = 0


def show(program: Program, names: Names | None = None) -> str:
    """The whole Program, a statement a line; ends with a newline. Values are numbered within each phase, or through all of them where
    `names` keeps their names for the next text."""
    out = [f"program {program.name}"]
    for p in program.params:
        out.append(f"  {p.role} {p.name}: {p.dtype}[{', '.join(_extent(d) for d in p.shape)}]")
    for s in program.symbols:
        out.append(f"  symbol {s.arg.name} in {s.arg.lo}..{s.arg.hi}")
    for i, m in enumerate(program.maps):
        dims, pitches = (", ".join(_extent(x) for x in xs) for xs in (m.dims, m.strides))
        box = " × ".join(map(str, m.box))
        out.append(f"  map{i}: {program.params[m.param].name}[{dims}] strides [{pitches}] in boxes of {box}, swizzle {m.swizzle}")
    for what in ("scratch", "work", "shared"):
        if getattr(program, what):
            out.append(f"  {what} {getattr(program, what)} bytes")
    if program.align > 1:
        out.append(f"  parameters aligned to {program.align} bytes")
    if program.generation:
        out.append(f"  tensor cores of {program.generation}")
    if program.regs:
        out.append(f"  at most {program.regs} registers a thread")
    for i, phase in enumerate(program.phases):
        groups = f" of {phase.threads} threads" if phase.threads > 1 else ""
        groups += f" in clusters of {phase.cluster}" if phase.cluster > 1 else ""
        once = ", once" if i < program.once else ""
        out.append(f"phase {i}{once}: {_extent(phase.items)} items{groups}")
        out.extend(Printer(program, names).phase(phase))
    return "\n".join(out) + "\n"


def _extent(d: Any) -> str:
    return str(d) if isinstance(d, int) else show_node(d)


class Printer:
    """Names the Vals of one phase as they appear."""

    def __init__(self, program: Program, names: Names | None = None) -> None:
        self.program = program
        self._known = names if names is not None else Names()
        self.names = self._known.of
        self.latest: Stmt | None = None

    def phase(self, phase: Phase) -> Iterator[str]:
        """The lines of a phase's body."""
        self.bind(phase)
        yield from self._block(phase.body, "  ")

    def bind(self, phase: Phase) -> None:
        """Name the grid index, the thread and the symbols."""
        self.names[phase.item] = "%item"
        if phase.thread is not None:
            self.names[phase.thread] = "%thread"
        for v, s in zip(phase.vars, self.program.symbols, strict=True):
            self.names[v] = f"%{s.arg.name}"

    def name(self, v: Val) -> str:
        """The name of a Val; the next number when it is new."""
        found = self.names.get(v)
        if found is None:
            found = self.names[v] = f"%{self._known.count}"
            self._known.count += 1
        return found

    def _block(self, block: Block, indent: str) -> Iterator[str]:
        for s in block.stmts:
            yield from self._stmt(s, indent)

    def _stmt(self, s: Stmt, indent: str) -> Iterator[str]:
        self.latest = s
        if isinstance(s, Instr):
            if s.op == "const" and not isinstance(s.attr, tuple) and s.out is not None:
                self.names[s.out] = number(s.number)
            else:
                yield indent + self.instr(s)
        elif isinstance(s, If):
            yield f"{indent}if {self.name(s.cond)}:"
            yield from self._block(s.body, indent + "  ")
        elif isinstance(s, Roles):
            yield f"{indent}roles:"
            for r in s.roles:
                more = f", {r.registers} registers" if r.registers else ""
                yield f"{indent}  {r.name}, threads {r.first} to {r.first + r.threads - 1}{more}:"
                yield from self._block(r.body, indent + "    ")
        else:
            yield from self._for(s, indent)

    def _for(self, s: For, indent: str) -> Iterator[str]:
        head = (
            f"{indent}for {self.name(s.var)} = {self.name(s.lo)} to {self.name(s.hi)}{f' step {s.step}' if s.step != 1 else ''} [{s.label}]"
        )
        head += " if any" * s.maybe
        starts = [self.name(v) for v in s.init]
        carried = [f"{self.name(c)}: {c.type} = {a}" for c, a in zip(s.carried, starts, strict=True)]
        yield f"{head} carry {', '.join(carried)}:" if carried else f"{head}:"
        yield from self._block(s.body, indent + "  ")
        if s.yields:
            yield f"{indent}  yield {', '.join(self.name(v) for v in s.yields)}"
            yield f"{indent}-> {', '.join(self.name(v) for v in s.results)}"

    def instr(self, s: Instr) -> str:
        """One instruction on one line."""
        self.latest = s
        args = [self.name(a) for a in s.args]
        text = _memory(self.program, s, args) if isinstance(s.attr, Mem) else _operation(self.program, s, args)
        return text if s.out is None else f"{self.name(s.out)}: {s.out.type} = {text}"


def _operation(program: Program, s: Instr, args: list[str]) -> str:
    sign = SIGNS.get(s.op)
    if sign is not None:
        right = args[1] if len(args) > 1 else str(s.attr)
        return f"{args[0]} {sign} {right}"
    if s.op == "aligned":
        return f"aligned {program.params[s.picks[0]].name} to {s.picks[1]} bytes"
    if s.op == "apart":
        a, b, first, size = s.picks
        return f"apart {program.params[a].name} from {program.params[b].name} + {first} to {first + size} in a page"
    if s.op == "const":
        return f"({', '.join(number(x) for x in s.picks)})"
    if s.op in HOPPER:
        return s.op + (f" {s.attr}" if s.attr is not None else "") + (f" ({', '.join(args)})" if args else "")
    if not args and s.attr is None:
        return s.op
    if isinstance(s.attr, AsyncCopy):
        c = s.attr
        mask = f" if {args[2]}" if len(args) > 2 else ""
        return f"{s.op} {_place(program, c.to, args[0])} = {_place(program, c.source, args[1])}, {c.bytes} bytes{mask}"
    if s.op == "wait":
        return f"wait until {s.attr} groups are under way"
    if s.op == "shfl_xor":
        return f"{s.op} {args[0]}, distance {s.attr}"
    if s.op in ("dot", "mma"):
        return f"{s.attr} {', '.join(args)}"
    if s.attr is not None:
        args = [*args, f"lanes {', '.join(map(str, s.attr))}" if isinstance(s.attr, tuple) else f"lane {s.attr}"]
    return f"{s.op} {', '.join(args)}"


def _memory(program: Program, s: Instr, args: list[str]) -> str:
    mem = s.mem
    place = _place(program, mem, args[0])
    stored = s.op in WRITES
    mask = args[2 if stored else 1 :]
    text = f"{s.op} {place}" + (f" = {args[1]}" if stored else "")
    text += f" if {mask[0]}" if mask else ""
    text += f" align {mem.align}" if mem.align > mem.dtype.size else ""
    return text + " nt" * mem.nt + " anywhere" * mem.anywhere + " runs" * mem.runs + (f" row {mem.row}" if mem.row else "")


def _place(program: Program, mem: Mem, index: str) -> str:
    where = program.params[mem.base].name if mem.space == "param" else f"{mem.space}@{mem.base}:{mem.dtype}"
    return f"{where}[{index} + {mem.offset}]" if mem.offset else f"{where}[{index}]"


def locate(program: Program, instr: Instr) -> str:
    """The line of one instruction, named as in `show`."""
    for phase in program.phases:
        printer = Printer(program)
        for _ in printer.phase(phase):
            if printer.latest is instr:
                return printer.instr(instr)
    return instr.op


def excerpt(program: Program, number: int, stmt: Stmt | None, around: int = 4) -> str:
    """The lines of phase `number` around a statement, which is marked by >; the beginning of the Program where it is not found. Shows
    as much as can be shown of a Program that is malformed."""
    lines: list[str] = []
    at = None
    try:
        printer = Printer(program)
        for line in printer.phase(program.phases[number]):
            if at is None and printer.latest is stmt:
                at = len(lines)
            lines.append(line)
            if at is not None and len(lines) > at + around:
                break
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        at = len(lines)  # what cannot be written down comes next
        lines.append(f"  {stmt!r}")
    first = 0 if at is None else max(0, at - around)
    return "\n".join(f"{'>' if i == at else ' '}{line}" for i, line in enumerate(lines[first : first + 2 * around + 1], first))


Program.written_by = staticmethod(show)


@dataclass(frozen=True, slots=True)
class Stage:
    """A Program as it was after `name`: its text, in which a value keeps its name from stage to stage, and its
    instructions by operation."""

    name: str
    text: str
    counts: Counter[str]


class History:
    """`lower(scheduled, observe=history)` fills `stages`: what was emitted, then the Program after each pass, in
    order."""

    def __init__(self) -> None:
        self.stages: list[Stage] = []
        self._names = Names()

    def __call__(self, name: str, program: Program) -> None:
        """Take the text now: the Program goes on changing."""
        counts = Counter(s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr))
        self.stages.append(Stage(name, show(program, self._names), counts))

    def text(self) -> str:
        """The Program as it was emitted, then for each pass its unified diff and how many instructions it added and
        took away."""
        first = self.stages[0]
        out = [f"{first.name}: {first.counts.total()} instructions", *first.text.splitlines()]
        for before, after in zip(self.stages, self.stages[1:]):
            out += ["", _stage_heading(before, after)]
            out += unified_diff(before.text.splitlines(), after.text.splitlines(), before.name, after.name, lineterm="")
        return "\n".join(out) + "\n"


def _stage_heading(before: Stage, after: Stage) -> str:
    if before.text == after.text:
        return f"pass {after.name}: changed nothing"
    more = {op: after.counts[op] - before.counts[op] for op in sorted({*before.counts, *after.counts})}
    changes = ", ".join(f"{n:+} {op}" for op, n in more.items() if n) or "the same ones"
    return f"pass {after.name}: {before.counts.total()} instructions before, {after.counts.total()} after ({changes})"
