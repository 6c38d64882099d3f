"""What a tile kernel does, as it was written: its loops, stores and reductions in order, in single-assignment form.

The function runs once, for one cell of the grid, with axes in place of the numbers of the cell and of the loops' steps. What changes
in a loop is an `Accumulator`: inside, it is a placeholder (`Carried.before`), and afterwards a reference to what the loop left
(`Carried.after`). `tile.solve` says what that is without a loop, `tile.interpret` runs the trace as it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..ir.body import Reduce, Value
from ..ir.buffer import Buffer
from ..ir.dtypes import DType
from ..ir.errors import KernelError
from ..ir.node import Node, axes_of, axis, ref, walk
from ..ir.operators import substitute, substitute_on
from .value import TileDim


@dataclass(frozen=True, eq=False)
class Step:
    """An axis of the grid or of a loop: `axis` counts its cells or steps. `block`: the elements of one step (None: it only counts), a
    parameter's value where `param` names one. `extent`: elements in all."""

    name: str
    axis: Node
    block: int | None
    extent: int
    param: str = ""
    grid: bool = False
    upto: Node | None = None
    """Where the cell ends the loop: elements at or past it do not exist."""


@dataclass(frozen=True, eq=False)
class TileReduction:
    """A reduction over lanes, or over a loop: `name[axes]` is `combine` of `body` over `over`."""

    name: str
    axes: tuple[Node, ...]
    over: tuple[Node, ...]
    combine: str
    body: Node
    dtype: DType

    @property
    def value(self) -> Value:
        """The value of a kernel that it is."""
        return Value(self.name, self.axes, Reduce(self.combine, self.over, self.body, self.dtype), self.dtype)


@dataclass(eq=False)
class Carried:
    """What a loop changes: `before` and `after` are the names of the value at the beginning of a step, and after the loop; `init`
    and `update` say what it is at first and at the end of a step, over `lanes`."""

    lanes: tuple[Node, ...]
    dims: tuple[TileDim, ...]
    init: Node
    before: str
    after: str
    update: Node | None = None


@dataclass(frozen=True, eq=False)
class TileStore:
    """A store of a tile: an element for each point of `lanes`, where `mask` holds."""

    buffer: Buffer
    indices: tuple[Node, ...]
    value: Node
    lanes: tuple[Node, ...]
    mask: Node | None
    combine: str | None


@dataclass(eq=False)
class LoopTrace:
    """A loop: what it carries, and what stands in it."""

    step: Step
    carried: list[Carried] = field(default_factory=list)
    items: list[LoopTrace | TileStore] = field(default_factory=list)


Solution = tuple[tuple[Node, ...], Node]
"""Lanes, and an expression over them."""


class Trace:
    """What one run of a tile function wrote down. `steps`: all axes of the grid and of loops. `items`: the program. `reductions` by
    name, as written; `solved`: those of them, and of loops, that the kernel will have. `solutions`: what references to states are."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps: dict[Node, Step] = {}
        self.items: list[LoopTrace | TileStore] = []
        self.open: list[LoopTrace] = []
        self.buffers: list[Buffer] = []
        self.reductions: dict[str, TileReduction] = {}
        self.solved: dict[str, TileReduction] = {}
        self.solutions: dict[str, Solution] = {}
        self.aliases: dict[str, Solution] = {}
        self.lanes: dict[Node, str] = {}
        """Names of lanes that go through a whole dimension."""
        self.opened: dict[tuple[str, Node], Node] = {}
        """Reductions by name, without the condition that the cell ends a loop at a place."""
        self.scans: dict[str, Value] = {}
        """Running results, by name."""
        self.stepwise: dict[TileStore, TileStore] = {}
        """Stores that read running results, and what the kernel has of them."""
        self.carries = False
        """Whether some loop carries an accumulator: then the kernel may be a fold, a block at a time."""
        self.gone: dict[str, str] = {}
        """Placeholders of loops that have ended → the loop's name."""
        self._names: set[str] = set()

    # names --------------------------------------------------------------------------------------------------------------
    def fresh(self, wish: str) -> str:
        """A name that nothing has yet."""
        name, n = wish, 1
        while name in self._names:
            n += 1
            name = f"{wish}{n}"
        self._names.add(name)
        return name

    def claim(self, name: str, what: str) -> str:
        """A name that a user gives. KernelError where something has it, or it is none."""
        if not isinstance(name, str) or not name.isidentifier():
            raise KernelError(f"{name!r} is no name for {what}: use a word of letters, digits and _")
        if name in self._names:
            raise KernelError(f"{what} {name!r}: something else in this kernel is called so; give it another name")
        self._names.add(name)
        return name

    def rank(self, a: Node) -> tuple[int, int]:
        """The rank of an axis among others: grid, loops, then lanes as they were made."""
        order = {x: n for n, x in enumerate(self.steps)}
        return (0, order[a]) if a in order else (1, int("".join(c for c in a.arg.name if c.isdigit()) or 0))

    # program ------------------------------------------------------------------------------------------------------------
    @property
    def block(self) -> list[LoopTrace | TileStore]:
        """The block that statements are written to now."""
        return self.open[-1].items if self.open else self.items

    def reduce(self, combine: str, body: Node, over: tuple[Node, ...], dtype: DType, hint: str) -> Node:
        """A reference to a new reduction, over the axes that it depends on, by way of what loops left as well."""
        full = self.full(body)
        axes = tuple(sorted(axes_of(body, full) - set(over), key=self.rank))
        found = TileReduction(self.fresh(hint), axes, over, combine, body, dtype)
        self.reductions[found.name] = found
        self.solved[found.name] = TileReduction(found.name, axes, over, combine, full, dtype)
        return ref(found.name, axes, dtype)

    def add_solved(self, combine: str, body: Node, over: tuple[Node, ...], dtype: DType, hint: str) -> Node:
        """As `reduce`, for a reduction that only the kernel has and not the trace."""
        axes = tuple(sorted(axes_of(body) - set(over), key=self.rank))
        name = self.fresh(hint)
        self.solved[name] = TileReduction(name, axes, over, combine, body, dtype)
        return ref(name, axes, dtype)

    def full(self, n: Node) -> Node:
        """An expression with the solutions of loops in place of references to what they left."""
        return substitute_on(n, {}, self._full_ref)

    def _full_ref(self, n: Node, src: tuple[Node, ...]) -> Node:
        found = self.solutions.get(n.arg) or self.aliases.get(n.arg)
        if found is None:
            return ref(n.arg, src, n.dtype)
        lanes, node = found
        return self.full(substitute(node, dict(zip(lanes, src, strict=True))))

    def element(self, r: Node) -> Node:
        """The element that a reference to a reduction sums up (over the reduction's own `over`)."""
        found = self.solved[r.arg]
        return substitute(found.body, dict(zip(found.axes, r.src, strict=True)))

    # what an expression needs -------------------------------------------------------------------------------------------
    def deep(self, n: Node, seen: Callable[[Node], None]) -> None:
        """Call `seen` with each node below `n`, those of the reductions that it refers to included."""
        done: set[Node] = set()
        todo = [n]
        while todo:
            for m in walk(todo.pop()):
                if m not in done:
                    done.add(m)
                    seen(m)
                    if m.op == "ref" and (m.arg in self.solved or m.arg in self.scans):
                        todo.append(self.solved[m.arg].body if m.arg in self.solved else self.scans[m.arg].body)

    def states(self, n: Node) -> set[str]:
        """The placeholders of loops that an expression depends on."""
        found: set[str] = set()
        self.deep(n, lambda m: found.add(m.arg) if m.op == "ref" and m.arg.startswith("\0b") else None)
        return found

    def check_scope(self, n: Node, what: str) -> None:
        """Raise KernelError where a loop that has ended is needed."""
        running = {loop.step.axis for loop in self.open}
        for a in axes_of(n):
            step = self.steps.get(a)
            if step is not None and not step.grid and a not in running:
                raise KernelError(_after(what, step.name))
        for name in self.states(self.full(n)):
            if name in self.gone:
                raise KernelError(_after(what, self.gone[name]))


def _after(what: str, loop: str) -> str:
    return (
        f"{what} needs what was computed inside the loop over {loop}, after that loop: only accumulators outlive a loop. Make one before it, "
        f"acc = t.zeros(...) or t.full(...), and change it inside: acc += x, or acc[...] = x"
    )


def step_axis(trace: Trace, name: str, count: int) -> Node:
    """An axis for `count` cells or steps."""
    return axis(f"\0s{len(trace.steps)}", count)


def placeholders(n: Node) -> list[Node]:
    """The references to what loops' states are before a step, in an expression itself."""
    return [m for m in walk(n) if m.op == "ref" and m.arg.startswith("\0b")]
