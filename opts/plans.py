"""What options have decided, as data: a staged tile, a matrix instruction, the threads of a group. The rules that
make them are the options' own."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import index as ix
from ..ir.buffer import Buffer
from ..ir.dtypes import DType
from ..ir.node import Node, axis, const
from ..targets.instructions import Instruction
from ..targets.tensor_rows import TensorRow
from .axis_plan import Part
from .nests import Nest

ONCE = "once"
"""Where a panel is staged that is filled before the first call, and kept."""


@dataclass(frozen=True, slots=True)
class ThreadAxis:
    """One dimension of a group: `count` threads that share the sites of a family. Thread numbers differ by `stride` along it;
    `var` is the index of a thread in it. `others`: indices of a thread along families that another matrix instruction of the kernel
    deals out to the same threads."""

    family: str
    count: int
    stride: int
    var: Node
    others: tuple[Node, ...] = ()

    @property
    def variables(self) -> tuple[Node, ...]:
        """Every index that says which thread along this dimension one is."""
        return (self.var, *self.others)


@dataclass(frozen=True, eq=False)
class DotPlan:
    """What a matrix instruction multiplies: loads `a` (the same in all lanes) and `b` (one group a lane) of the sum `value`, along the
    reduce axis `k`, with lanes along `n`. `shift` is added to every element of `a`: 0, or half the range of its type."""

    value: str
    row: Instruction
    expr: Node
    a: Node
    b: Node
    n: Node
    k: Node
    shift: int

    @property
    def describe(self) -> str:
        """Deterministic text for hashing."""
        return f"{self.value} {self.row.name} {self.n.arg.name} {self.k.arg.name}"


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """A sum of products that units of threads make by a matrix instruction of `targets.tensor_rows`: its tiles lie along the axes `m`
    and `n` of the sum `value`, and along the reduce axis `k`."""

    value: str
    row: TensorRow
    m: Node
    n: Node
    k: Node

    @property
    def what(self) -> str:
        """How messages call the option."""
        return f"TC({self.value}, row={self.row.name})"

    @property
    def describe(self) -> str:
        """Deterministic text for hashing."""
        return f"{self.value} {self.row.name} {self.m.arg.name} {self.n.arg.name} {self.k.arg.name}"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """How a GPU's groups are launched; 0 is what nobody asked for. `persist`: groups a multiprocessor, which go through all work items.
    `warpspec`: warpgroups that multiply while one more copies. `cluster`: groups of a cluster. `threads`: 1 where groups have one
    thread. `registers`: the most that a thread has."""

    persist: int = 0
    warpspec: int = 0
    cluster: int = 0
    threads: int = 0
    registers: int = 0


@dataclass(frozen=True, slots=True)
class ExtremePlace:
    """The place of the reduction `extreme`: the least `index`, an expression of that one's axis; `none` where nothing equals it."""

    extreme: str
    index: Node
    none: int


@dataclass(frozen=True, slots=True)
class RollPlan:
    """A value over blocks that is kept from one to the next: block b + 1 has at place p of axis `along` what block b has at p + `step`.
    Each computes what is new, the first all. Place p of block b lies in slot (step·b + p) mod `slots`. `block_at`, `along_at`:
    which of the value's axes the two are."""

    blocks: Node
    along: Node
    block_at: int
    along_at: int
    step: int

    @property
    def extent(self) -> int:
        """Places of a block."""
        found = self.along.arg.extent
        assert isinstance(found, int)
        return found

    @property
    def kept(self) -> int:
        """Places that the block before has computed: the first so many."""
        return self.extent - self.step

    @property
    def computed(self) -> float:
        """The share of all blocks' places that is computed."""
        count = ix.upper(self.blocks.arg.extent)
        return (self.extent + (count - 1) * self.step) / (count * self.extent)

    @property
    def slots(self) -> int:
        """A power of two, so that a place is found without division."""
        return 1 << (self.extent - 1).bit_length()


@dataclass(frozen=True, eq=False)
class StagePlan:
    """A staged tile. panel: one element for each combination of the inner `parts` (with strides in elements), in loop order,
    register copies innermost, so that it is read consecutively. row: the box of the buffer that is touched, as
    (dimension, first index, extent, stride). `kept`: the type in scratch where it is not the buffer's (signed bytes moved into the
    unsigned range). Groups of threads keep boxes only: with order panel, dimensions that are reduced
    over come first. `swizzle` > 0: in row r of `pitch` elements, chunks of `vector` elements change places by XOR with
    (r // every) % swizzle. `depth` > 1: so many slots, of which iteration i of the loop `at` uses number i % depth; `chunk` is then
    how many elements one asynchronous copy moves, 0 where copies go through registers. `boxed`: TMA copies it, in an order of its own."""

    buffer: Buffer
    at: Part
    order: str
    nests: tuple[Nest, ...]
    index: tuple[Node, ...]
    mask: Node | None
    parts: tuple[tuple[Part, int], ...]
    box: tuple[tuple[int, Node, int, int], ...]
    elements: int
    swizzle: int = 0
    pitch: int = 0
    vector: int = 1
    kept: DType | None = None
    every: int = 1
    depth: int = 1
    chunk: int = 0
    boxed: bool = False

    @property
    def once(self) -> bool:
        """Whether it is filled before the first call, and kept."""
        return self.at.kind == ONCE

    @property
    def bytes(self) -> int:
        """Scratch or shared memory it needs, in all of its slots."""
        return (self.elements if self.depth == 1 else self.depth * self.slot_elements) * self.buffer.dtype.size

    @property
    def slot_elements(self) -> int:
        """Elements from one slot to the next: those of a tile, up to a multiple of 16 bytes."""
        unit = max(1, 16 // self.dtype.size)
        return -(-self.elements // unit) * unit

    @property
    def slot(self) -> Node:
        """The number of the slot in use, an index that lowering binds in the loop `at`."""
        return axis(f"{self.at.name}.slot", self.depth)

    @property
    def offset(self) -> Node:
        """The element at which the slot in use begins: what an address in the tile begins with."""
        return const(0) if self.depth == 1 else ix.mul(self.slot, const(self.slot_elements))

    @property
    def dtype(self) -> DType:
        """The type kept in scratch."""
        return self.kept or self.buffer.dtype

    @property
    def describe(self) -> str:
        """Deterministic text for hashing."""
        return f"{self.buffer.name} at {self.at.axis.arg.name}/{self.at.stride} {self.order} {[(p.axis.arg.name, p.stride, s) for p, s in self.parts]} {[(d, e, s) for d, _, e, s in self.box]} {self.swizzle}{self.kept or ''}{f'x{self.depth}' if self.depth > 1 else ''}"
