"""The loop Program: structured SSA, what renderers print and the interpreter runs.

A Program is a list of phases run one after another; a phase is a body executed once for each grid item. A block is a list
of statements: `Instr` (one operation, at most one result), `For` (with loop-carried values) and `If`. A `Val` is assigned
once. `lanes` > 1 is a vector. Index values are int64 scalars (or int64 vectors in gathers and masks).

Operations (a, b, c are Vals; vectors are element-wise; comparisons give bool). `program.ops` has their types, `program.verify` checks them:
    const       attr = number, or a tuple of one number a lane
    add sub mul div max min          same types; int wraps; max/min propagate NaN (fmax does not do), of two zeros
    give either; div is float only neg abs sqrt floor round         round = nearest even; floor and round keep the
    float type fma         a*b + c, one rounding scale2      a · 2^b, one rounding; b whole or NaN (or -inf where a is
    0); from `expand` for targets with avx512 only exp2        2^x of float32 within 2 ulp (interpreted: correctly rounded but
    for rare ties); from `expand` for NVIDIA GPUs only root_guess  1/√x of normal float32 above 0 within a part in 2700
    (bits are the processor's; interpreted: rounded to 12 bits); for x86-64 only, refined by who asks idiv imod   floor division / remainder of an index by the positive
    int `attr` quot        a / b of integers rounded towards 0; 0 where b is 0, and the least number by -1 is itself lt le eq ne and or not xor shl shr   shr is arithmetic on signed, logical on unsigned types; and/or/xor
    also on ints select      (cond, a, b) cast        to out.dtype: float→int truncates (saturation not required),
    int→int wraps, bool→number 0/1, nearest even bitcast     same size exp expm1 log log1p tanh erf sin cos atan trunc     only in Programs lowered
    with `expand=False` (the twin); otherwise expanded to the above splat       scalar → vector         extract
    (vec), attr = lane        insert  (vec, scalar), attr = lane aligned     (), attr = (parameter, bytes): whether
    the parameter's address is a multiple of so many bytes shuffle     (a, b), attr = tuple of lane numbers into a‖b
    dot         (acc, a, b), attr = name of a row of `targets.instructions`: lane i is the row's `step` of acc[i], the
    k elements of a,
                and elements k·i … k·i + k - 1 of b
    load        (index[, mask]), attr = Mem: out.lanes consecutive elements from element index + mem.offset;
                a masked lane gives 0 and touches no memory
    gather      (vector index[, mask]), attr = Mem: one element a lane
    store       (index, value[, mask]), attr = Mem: consecutive lanes;   scatter (vector index, value[, mask])
    prefetch    (index), attr = Mem: asks for the line of an element that will be used; no effect, any index; languages with `prefetch` only
    barrier     (): every thread of the group arrives before any goes on; orders shared memory, parameters and the
    workspace within the group shfl_xor    (scalar), attr = distance: the value that thread `thread ^ distance` holds;
    both in one warp (`Target.warp`)
    copy_async  (to, from[, mask]), attr = AsyncCopy: begins to copy 4, 8 or 16 bytes into shared memory, beside the thread; where the
                mask does not hold it writes zeros and reads nothing. Until a `wait` of this thread has it, nobody touches what it
                writes, and nobody changes what it reads
    commit      (): this thread's copies since its last commit are a group, maybe an empty one
    wait        (), attr = n: goes on when at most the n newest groups of this thread are under way. The thread itself sees what
                the others have written; other threads do after a barrier that follows
    mma         (acc, a, b), attr = name of a row of `targets.tensor_rows`: fragments of a warp's tiles; what the row's `step` gives
    ldmatrix    (index), attr = Mem in shared memory: lane l of a warp names the row l % 8 of matrix l // 8, 16 bytes from the element
                on; it gets of each matrix (as many as its lanes make 32-bit words) the word l % 4 of row l // 4
    ldmatrix_t  the same of 16-bit elements with each matrix transposed: elements l // 4 of the rows 2·(l % 4) and the one after

Of Hopper's units: see `program.hopper`.

A phase runs `items` groups of `threads` threads. Barriers stand where every thread of the group comes by; shuffles, mma and ldmatrix
where every thread of a warp does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, cast

from ..ir.dtypes import DType
from ..ir.kernel import text
from ..ir.node import Node
from .hopper import HopperAttr, TensorMap
from .ops import HOPPER


@dataclass(frozen=True, slots=True)
class Param:
    """One buffer argument, element-aligned only. It is distinct from every other (noalias), but for an output with an
    `alias`, which may be the memory of the input of that name: each element is read before it is written."""

    name: str
    dtype: DType
    shape: tuple[int | Node, ...]
    role: str
    alias: str = ""


@dataclass(frozen=True, slots=True)
class Signature:
    """How to call a compiled Program: phase i is the symbol `{name}_p{i}` with
    `void (void **bufs, int64 *vars, void *scratch, int64 lo, int64 hi)` running grid items [lo, hi). `bufs` holds the
    parameters, then the workspace pointer. Phases run in order, each complete before the next. `threads` and `clusters` (a phase),
    `shared`, `align`, `once` and `maps` are as in Program (`clusters` is empty where all are 1).
    `phase_shared` is the group memory of each phase (empty: `shared` for all); languages with thread groups say in their renderer how arguments are passed."""

    name: str
    params: tuple[Param, ...]
    symbols: tuple[str, ...]
    items: tuple[Node, ...]
    scratch: int
    work: int
    threads: tuple[int, ...] = ()
    shared: int = 0
    align: int = 1
    once: int = 0
    maps: tuple[TensorMap, ...] = ()
    clusters: tuple[int, ...] = ()
    phase_shared: tuple[int, ...] = ()

    def shared_in(self, phase: int) -> int:
        """Bytes of group memory that a phase takes."""
        return self.phase_shared[phase] if self.phase_shared else self.shared

    def working_memory(self, workers: int) -> int:
        """Bytes that a call takes beside its arguments: memory between phases (packed constants included), each worker's scratch, and
        the memory that a thread group shares."""
        return self.work + self.scratch * workers + self.shared

    def entry(self, phase: int) -> str:
        """The function name of a phase: what is not ASCII becomes an underscore."""
        return f"{''.join(c if c.isascii() else '_' for c in self.name)}_p{phase}"


class Val:
    """One SSA value. `depth` is the nesting depth of the block that defines it."""

    __slots__ = ("depth", "dtype", "id", "lanes", "name")

    def __init__(self, id: int, dtype: DType, lanes: int, depth: int, name: str = "") -> None:
        self.id, self.dtype, self.lanes, self.depth, self.name = id, dtype, lanes, depth, name

    def __repr__(self) -> str:
        return f"%{self.name or self.id}"

    @property
    def type(self) -> str:
        """`float32` or `float32x16`."""
        return self.dtype.name if self.lanes == 1 else f"{self.dtype.name}x{self.lanes}"


@dataclass(frozen=True, slots=True)
class Mem:
    """Where a load or store goes. `space`: 'param' (`base` = position in the parameter list), 'scratch' (`base` = byte offset
    in the arena of one worker, or of one thread of a group; 64-byte aligned), 'shared' (byte offset in the group's shared memory)
    or 'work' (byte offset in the workspace shared by phases). `offset` is a constant in elements added to the index. `align` is the
    byte alignment known for the accessed address. `nt`: non-temporal. `anywhere`, of a masked gather: there is an element at the index of a lane that the mask
    leaves out, too, whatever that was computed from, so it may be read. `runs`, of a gather: its elements mostly lie one after the other. `row`, of a gather:
    its index is one number for all lanes plus 32-bit
    numbers in [0, row), so that it picks out of so many consecutive elements, all of which are there; 0: that is not known."""

    space: str
    base: int
    dtype: DType
    offset: int = 0
    align: int = 1
    nt: bool = False
    anywhere: bool = False
    runs: bool = False
    row: int = 0


@dataclass(frozen=True, slots=True)
class AsyncCopy:
    """What a `copy_async` moves: `lanes` elements from `source` (a parameter or the workspace) to `to` (shared memory), both
    known to be aligned to all of their bytes: 4, 8 or 16."""

    to: Mem
    source: Mem
    lanes: int

    @property
    def bytes(self) -> int:
        """What one copy moves."""
        return self.lanes * self.to.dtype.size


Number = bool | int | float
Attr = None | Number | str | Mem | AsyncCopy | tuple[Number, ...] | HopperAttr
"""What an operation is told beside its operands; `program.ops` says of which kind each operation's is."""


@dataclass(slots=True)
class Instr:
    """`out = op(args)`; `out` is None for what has no result. `attr` is read by its kind: `mem`, `number`, `picks`. That
    these fit the operation is `verify`'s business; a check in each reading would make every pass slower."""

    op: str
    out: Val | None
    args: tuple[Val, ...]
    attr: Attr = None

    @property
    def result(self) -> Val:
        """`out` of an operation that has a result."""
        return cast("Val", self.out)

    @property
    def mem(self) -> Mem:
        """The memory of an access (operations whose attribute is a Mem)."""
        return self.attr  # type: ignore[return-value]

    @property
    def copy(self) -> AsyncCopy:
        """What is copied (copy_async)."""
        return self.attr  # type: ignore[return-value]

    @property
    def number(self) -> int:
        """A divisor, a lane, a distance between threads, or groups of copies (operations whose attribute is an int)."""
        return self.attr  # type: ignore[return-value]

    @property
    def picks(self) -> tuple[int, ...]:
        """Lanes, or a parameter and an alignment in bytes (operations whose attribute is a tuple of ints)."""
        return self.attr  # type: ignore[return-value]


@dataclass(slots=True)
class Block:
    """Statements in order."""

    stmts: list[Stmt] = field(default_factory=list)


@dataclass(slots=True)
class For:
    """for var in range(lo, hi, step), at least one iteration unless there may be none (`maybe`). `carried[i]` starts as `init[i]`, is replaced by `yields[i]`
    after each iteration, and its final value is `results[i]` (defined in the enclosing block). `label` names the axis part. `once`: `hi` is
    `lo` or one more, so that the loop is a branch; `rare`: it is mostly not taken."""

    label: str
    var: Val
    lo: Val
    hi: Val
    step: int
    init: list[Val]
    carried: list[Val]
    body: Block
    yields: list[Val]
    results: list[Val]
    maybe: bool = False
    once: bool = False
    rare: bool = False


@dataclass(slots=True)
class If:
    """Run `body` where the scalar bool holds."""

    cond: Val
    body: Block


@dataclass(slots=True)
class Role:
    """Threads `first` to `first + threads - 1` of the group run `body`. `registers`: each of them may use so many from there on
    (setmaxnreg; 0: as many as the kernel began with, `hopper.launch_registers`)."""

    name: str
    first: int
    threads: int
    body: Block
    registers: int = 0


@dataclass(slots=True)
class Roles:
    """Parts of the group run bodies of their own at once; threads of no role go past. Nothing in a role waits for the whole group."""

    roles: list[Role]


Stmt = Instr | For | If | Roles


def bodies(s: Stmt) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    if isinstance(s, Instr):
        return ()
    return tuple(r.body for r in s.roles) if isinstance(s, Roles) else (s.body,)


@dataclass(slots=True)
class Phase:
    """`items` (an index expression over the symbols) independent executions of `body`; `item` is the grid index.
    `vars[i]` is the Val of the i-th symbol. Where `threads` > 1, every item is a group of so many threads, and `thread` is the
    number of one in its group. `cluster` consecutive items run at once, on multiprocessors that reach each other's shared memory.
    `shared`: bytes of group memory that it takes (None: as much as the Program's largest phase)."""

    items: Node
    item: Val
    vars: list[Val]
    body: Block
    threads: int = 1
    thread: Val | None = None
    cluster: int = 1
    shared: int | None = None

    @property
    def asynchronous(self) -> bool:
        """Whether it has operations of Hopper's units, or groups that reach one another."""
        return self.cluster > 1 or any(isinstance(s, Roles) or (isinstance(s, Instr) and s.op in HOPPER) for s in statements(self.body))


@dataclass(slots=True)
class Program:
    """A lowered kernel. Sizes are in bytes; `scratch` is a worker's (a thread's) arena, `shared` a group's memory, `work` is
    shared between phases. `align`: every parameter starts at a multiple of so many bytes (1: elements are aligned, no more).
    `regs`: at most so many registers a thread (0: the compiler decides). `generation`: of the tensor cores whose arithmetic `mma` has
    (`targets.tensor_rows.GENERATIONS`; '' where there is no mma). The first `once` phases read constant inputs alone and no
    other phase writes the workspace then: a call may leave them out, given the workspace that they filled from the same contents.
    `maps`: how TMA sees parameters; operations name them by position."""

    name: str
    params: tuple[Param, ...]
    symbols: tuple[Node, ...]
    phases: list[Phase]
    scratch: int = 0
    work: int = 0
    shared: int = 0
    align: int = 1
    regs: int = 0
    once: int = 0
    maps: tuple[TensorMap, ...] = ()
    generation: str = ""

    written_by: ClassVar[Callable[[Program], str]] = repr
    """What writes a Program down for `_repr_html_`; `program.listing` puts `show` here."""

    def _repr_html_(self) -> str:
        """Its text, in a notebook."""
        return text(type(self).written_by(self))

    @property
    def shared_params(self) -> frozenset[int]:
        """Positions of parameters whose memory another parameter may share."""
        names = {p.name: i for i, p in enumerate(self.params)}
        return frozenset(at for i, p in enumerate(self.params) if p.alias for at in (i, names[p.alias]))

    @property
    def signature(self) -> Signature:
        """What a device needs to call it."""
        return Signature(
            self.name, self.params, tuple(s.arg.name for s in self.symbols), tuple(p.items for p in self.phases), self.scratch, self.work,
            tuple(p.threads for p in self.phases), self.shared, self.align, self.once,
            self.maps, tuple(p.cluster for p in self.phases) if any(p.cluster > 1 for p in self.phases) else (),
            () if all(p.shared in (None, self.shared) for p in self.phases) else tuple(self.shared if p.shared is None else p.shared for p in self.phases),
        )  # fmt: skip


def touched(s: Instr) -> tuple[tuple[Mem, bool], ...]:
    """The memory that an instruction touches, each with whether it is written."""
    if isinstance(s.attr, Mem):
        return ((s.attr, s.out is None),)
    return ((s.attr.to, True), (s.attr.source, False)) if isinstance(s.attr, AsyncCopy) else ()


def statements(block: Block) -> list[Stmt]:
    """Every statement below `block`, outer before inner."""
    out: list[Stmt] = []
    for s in block.stmts:
        out.append(s)
        if not isinstance(s, Instr):
            for body in bodies(s):
                out += statements(body)
    return out


def operands(s: Stmt) -> tuple[Val, ...]:
    """The values that a statement itself reads, each as often as it does (those in its body not)."""
    if isinstance(s, Instr):
        return s.args
    if isinstance(s, For):
        return (s.lo, s.hi, *s.init, *s.yields)
    return (s.cond,) if isinstance(s, If) else ()


def defined(s: Stmt) -> tuple[Val, ...]:
    """The values that a statement itself makes, for its body too."""
    if isinstance(s, For):
        return (s.var, *s.carried, *s.results)
    return (s.out,) if isinstance(s, Instr) and s.out is not None else ()
