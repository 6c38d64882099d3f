"""Builds Program blocks: equal pure instructions collapse, and each lands in the outermost block where it is defined.

That placement is all the loop-invariant code motion there is, so generated code needs no optimiser passes. Loads from
read-only parameters move too, but never out of an `If`. Barriers and shuffles between threads stay where they are emitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from operator import add, mul, sub
from typing import Any

from ..ir.dtypes import DType, bfloat16, bool_, float16, float32, index
from ..ir.node import Node
from .ops import COMPARISONS
from .program import AsyncCopy, Attr, Block, For, If, Instr, Mem, Number, Phase, Role, Roles, Stmt, Val

_FOLDED: dict[str, Callable[..., int]] = {"add": add, "sub": sub, "mul": mul, "cast": int}
"""What is computed at once of whole numbers that are known."""
_CONVERTED = {float16: "f16c", bfloat16: "avx2"}
"""Types of 16 bits, and the feature with which all lanes are converted to float32 as quickly as one."""


class _Scope:
    __slots__ = ("block", "cse", "guarded")

    def __init__(self, block: Block, guarded: bool) -> None:
        self.block, self.guarded = block, guarded
        self.cse: dict[Any, Val] = {}


class Loop:
    """What `Builder.loop` hands out: the variable, the carried values, and (after the body) the results."""

    def __init__(self, var: Val, carried: list[Val]) -> None:
        self.var, self.carried = var, carried
        self.yields: list[Val] = list(carried)
        self.results: list[Val] = []


class Builder:
    """Emits into a stack of open blocks. `expand=False` keeps exp, log, tanh and erf as single operations (the twin); `features` are the
    target's, for expansions that know an instruction. `fixed`: expansions have the same bits on every processor. `float64`: whether the target
    computes in float64, in which expansions of float32 may do so."""

    def __init__(self, expand: bool = True, features: frozenset[str] = frozenset(), fixed: bool = False, float64: bool = True) -> None:
        self.expand, self.features = expand, features
        self.fixed, self.float64 = fixed, float64
        self.ordinary: list[Val] | None = None
        """Where arguments may be taken for ordinary ones, the bools that say which are; what is made of the others counts
        for nothing. None where every argument is to be right at once."""
        self._waiting: list[Stmt] | None = None
        self._next = 0
        self._scopes: list[_Scope] = []
        self._truths: dict[Val, Number | tuple[Number, ...]] = {}
        self._zeros: set[Val] = set()
        self._numbers: dict[Val, int] = {}
        self._widened: dict[Val, Val] = {}
        self.begun: set[Val] = set()
        """Masks that hold in their first lane."""

    # blocks -------------------------------------------------------------------------------------------------------
    @contextmanager
    def phase(self, items: Node, symbols: Sequence[Node], threads: int = 1, cluster: int = 1) -> Iterator[Phase]:
        """Open a phase of groups of `threads` threads, of which `cluster` run at once; its `item`, `vars` and (above one thread) `thread` are defined at depth 0."""
        if self._scopes:
            raise AssertionError("a phase cannot be nested")
        block = Block()
        self._scopes = [_Scope(block, False)]
        item = self._val(index, 1, 0, "item")
        thread = self._val(index, 1, 0, "thread") if threads > 1 else None
        yield Phase(items, item, [self._val(index, 1, 0, s.arg.name) for s in symbols], block, threads, thread, cluster)
        self._scopes = []

    @contextmanager
    def loop(
        self,
        label: str,
        lo: Val,
        hi: Val,
        step: int = 1,
        init: Sequence[Val] = (),
        maybe: bool = False,
        once: bool = False,
        rare: bool = False,
    ) -> Iterator[Loop]:
        """Open a loop; set `.yields` before leaving it, read `.results` after. `maybe`: it may have no iteration; `once`: it has one at
        most, and nothing in it is to be read where it has none; `rare`: it mostly has none."""
        depth = len(self._scopes)
        body = Block()
        var = self._val(index, 1, depth, "")
        loop = Loop(var, [self._val(v.dtype, v.lanes, depth) for v in init])
        self._scopes.append(_Scope(body, once))
        yield loop
        self._scopes.pop()
        loop.results = [self._val(v.dtype, v.lanes, depth - 1) for v in init]
        made = For(label, var, lo, hi, step, list(init), loop.carried, body, loop.yields, loop.results, maybe, once, rare)
        self._scopes[-1].block.stmts.append(made)

    def branch(self, cond: Val, init: Sequence[Val], rare: bool = False) -> AbstractContextManager[Loop]:
        """Open what is done where a scalar bool holds, as a loop of one iteration or none."""
        return self.loop("if", self.const(0), self.op("cast", cond, dtype=index), 1, init, True, True, rare)

    @contextmanager
    def when(self, cond: Val) -> Iterator[None]:
        """Open an If."""
        body = Block()
        self._scopes.append(_Scope(body, True))
        yield
        self._scopes.pop()
        self._scopes[-1].block.stmts.append(If(cond, body))

    @contextmanager
    def roles(self) -> Iterator[Roles]:
        """Open a Roles; `role` opens each of its bodies."""
        out = Roles([])
        yield out
        self._scopes[-1].block.stmts.append(out)

    @contextmanager
    def role(self, roles: Roles, name: str, first: int, threads: int, registers: int = 0) -> Iterator[None]:
        """Open the body of threads `first` to `first + threads - 1`."""
        body = Block()
        self._scopes.append(_Scope(body, True))
        yield
        self._scopes.pop()
        roles.roles.append(Role(name, first, threads, body, registers))

    # instructions -------------------------------------------------------------------------------------------------
    def const(self, value: Number | tuple[Number, ...], dtype: DType = index, lanes: int = 1) -> Val:
        """A constant; a tuple gives one number a lane."""
        key = value if isinstance(value, tuple) else repr(value)
        out = self._pure("const", dtype, lanes, (), value, key)
        if dtype is bool_:
            self._truths[out] = value
        elif isinstance(value, int) and lanes == 1 and (dtype.is_int or dtype is index):
            self._numbers[out] = value
        if dtype is not bool_ and key in ("0", "0.0"):
            self._zeros.add(out)
        return out

    def zero(self, a: Val) -> bool:
        """Whether a number is known to be 0 in every lane, and not -0."""
        return a in self._zeros

    def truth(self, a: Val) -> bool | None:
        """What a bool is in every lane, where that is known."""
        found = self._truths.get(a)
        return found if isinstance(found, bool) else None

    def known(self, a: Val) -> bool | tuple[bool, ...] | None:
        """What a bool is, in every lane or lane by lane, where that is known."""
        found = self._truths.get(a)
        return tuple(map(bool, found)) if isinstance(found, tuple) else None if found is None else bool(found)

    def op(self, op: str, *args: Val, dtype: DType | None = None, attr: Attr = None) -> Val:
        """An element-wise operation; scalars meeting vectors are splatted. `dtype` defaults to the operands' (bool for
        comparisons)."""
        lanes = 1
        for a in args:
            if a.lanes > lanes:
                lanes = a.lanes
        if lanes > 1:
            args = tuple(self.splat(a, lanes) for a in args)
        if op in ("and", "or", "select") and args[0].dtype is bool_ and self._truths:
            known = self._decided(op, *args)
            if known is not None:
                return known
        if dtype is None:
            dtype = bool_ if op in COMPARISONS else args[-1].dtype
        if lanes == 1 and op in _FOLDED and None not in (numbers := [self._numbers.get(a) for a in args]):
            number = _FOLDED[op](*numbers)
            if dtype is index or (dtype.is_int and dtype.limits[0] <= number <= dtype.limits[1]):
                return self.const(number, dtype)
        out = self._pure(op, dtype, lanes, args, attr, attr)
        if op == "cast" and args[0] in self._zeros and dtype is not bool_:
            self._zeros.add(out)
        if op == "cast" and lanes == 1 and dtype is float32 and args[0].dtype in _CONVERTED and _CONVERTED[args[0].dtype] in self.features:
            self._widened[out] = args[0]
        return out

    def both(self, a: Val | None, b: Val | None) -> Val | None:
        """Whether two conditions hold; None is one that always does."""
        return b if a is None else a if b is None else self.op("and", a, b)

    def multiples(self, step: int, lanes: int, dtype: DType = index) -> Val:
        """0, `step`, 2 · `step` and so on, one a lane."""
        return self.const(tuple(step * i for i in range(lanes)), dtype, lanes)

    def _decided(self, op: str, a: Val, b: Val, *rest: Val) -> Val | None:
        """What an operation comes to whose condition is known."""
        first = self.truth(a)
        if op == "select":
            return None if first is None else b if first else rest[0]
        second = self.truth(b)
        x, y = self._truths.get(a), self._truths.get(b)
        if isinstance(x, tuple) and isinstance(y, tuple):  # (lane by lane)
            return self.const(tuple(p or q if op == "or" else p and q for p, q in zip(x, y, strict=True)), bool_, a.lanes)
        if op == "or":
            return a if first is True or second is False else b if second is True or first is False else None
        return b if first is True or second is False else a if second is True or first is False else None

    def aligned(self, param: int, size: int) -> Val:
        """Whether a parameter starts at a multiple of `size` bytes."""
        return self._pure("aligned", bool_, 1, (), (param, size), (param, size))

    def apart(self, param: int, other: int, first: int, size: int) -> Val:
        """Whether a parameter begins neither `first` bytes after another one in a page of `PAGE` bytes, nor in one of the `size` after that."""
        return self._pure("apart", bool_, 1, (), (param, other, first, size), (param, other, first, size))

    def splat(self, a: Val, lanes: int) -> Val:
        """`a` in every lane."""
        if a.lanes == lanes:
            return a
        known = self.truth(a)
        if known is not None:
            return self.const(known, bool_, lanes)
        half = self._widened.get(a)
        if half is not None:  # (a short number is brought into all lanes by one instruction, and converted there)
            return self.op("cast", self._pure("splat", half.dtype, lanes, (half,), None, None), dtype=a.dtype)
        out = self._pure("splat", a.dtype, lanes, (a,), None, None)
        if a in self._zeros:
            self._zeros.add(out)
        return out

    def extract(self, a: Val, lane: int) -> Val:
        """One lane as a scalar."""
        return a if a.lanes == 1 else self._pure("extract", a.dtype, 1, (a,), lane, lane)

    def every(self, a: Val) -> Val:
        """Whether a condition holds in all lanes."""
        return a if a.lanes == 1 else self._pure("every", bool_, 1, (a,), None, None)

    def insert(self, a: Val, scalar: Val, lane: int) -> Val:
        """`a` with one lane replaced."""
        return self._pure("insert", a.dtype, a.lanes, (a, scalar), lane, lane)

    def shuffle(self, a: Val, b: Val, lanes: tuple[int, ...]) -> Val:
        """Lanes picked from a‖b."""
        return self._pure("shuffle", a.dtype, len(lanes), (a, b), lanes, lanes)

    def dot(self, row: str, acc: Val, a: Val, b: Val) -> Val:
        """A matrix instruction: to each lane of `acc`, the products of the lane's group of elements of `b` with `a`, or with the lane's group of it."""
        return self._pure("dot", acc.dtype, acc.lanes, (acc, a, b), row, row)

    def load(self, mem: Mem, at: Val, lanes: int = 1, mask: Val | None = None, invariant: bool = False) -> Val:
        """`lanes` consecutive elements; `invariant` memory is read-only for the whole phase, so the load may move out (group
        memory never is: it was written in this phase)."""
        args = (at,) if mask is None else (at, mask)
        if invariant and mem.space != "shared":
            return self._pure("load", mem.dtype, lanes, args, mem, mem, floor=self._guard())
        return self._here("load", mem.dtype, lanes, args, mem)

    def gather(self, mem: Mem, at: Val, mask: Val | None = None, invariant: bool = False) -> Val:
        """One element a lane at the vector of indices."""
        args = (at,) if mask is None else (at, mask)
        if invariant and mem.space != "shared":
            return self._pure("gather", mem.dtype, at.lanes, args, mem, mem, floor=self._guard())
        return self._here("gather", mem.dtype, at.lanes, args, mem)

    def store(self, mem: Mem, at: Val, value: Val, mask: Val | None = None) -> None:
        """Write consecutive lanes (or one a lane where `at` is a vector)."""
        op = "scatter" if at.lanes > 1 else "store"
        args = (at, value) if mask is None else (at, value, mask)
        stores = self._scopes[-1].block.stmts if self._waiting is None else self._waiting
        stores.append(Instr(op, None, args, mem))

    @contextmanager
    def waiting(self, stores: list[Stmt]) -> Iterator[None]:
        """Inside, stores of the open block are put into a list, for `append`."""
        self._waiting = stores
        yield
        self._waiting = None

    def append(self, stores: Sequence[Stmt]) -> None:
        """Stores that waited."""
        self._scopes[-1].block.stmts.extend(stores)

    def prefetch(self, mem: Mem, at: Val) -> None:
        """Ask for the line of an element that will be used; a hint, which never faults."""
        self._scopes[-1].block.stmts.append(Instr("prefetch", None, (at,), mem))

    def barrier(self) -> None:
        """Every thread of the group waits here for the others. It stays here, and no load from shared memory moves past it."""
        self._scopes[-1].block.stmts.append(Instr("barrier", None, ()))

    def copy_async(self, copy: AsyncCopy, to: Val, source: Val, mask: Val | None = None) -> None:
        """Begin to copy elements from index `source` to index `to`, beside the thread; zeros where the mask does not hold."""
        args = (to, source) if mask is None else (to, source, mask)
        self._scopes[-1].block.stmts.append(Instr("copy_async", None, args, copy))

    def commit(self) -> None:
        """Make a group of this thread's copies since the last commit."""
        self._scopes[-1].block.stmts.append(Instr("commit", None, ()))

    def wait(self, groups: int) -> None:
        """Wait until at most so many of this thread's newest groups of copies are under way."""
        self._scopes[-1].block.stmts.append(Instr("wait", None, (), groups))

    def shfl_xor(self, a: Val, distance: int) -> Val:
        """The scalar `a` of thread `thread ^ distance`, in the same warp. It stays here: all threads of the warp must come by."""
        return self._here("shfl_xor", a.dtype, a.lanes, (a,), distance)

    def mma(self, row: str, acc: Val, a: Val, b: Val) -> Val:
        """An instruction of tensor cores (a row of `targets.tensor_rows`) on fragments. It stays here: all threads of the warp must
        come by."""
        return self._here("mma", acc.dtype, acc.lanes, (acc, a, b), row)

    def ldmatrix(self, mem: Mem, at: Val, lanes: int, transposed: bool = False) -> Val:
        """`lanes` elements of 8×8 matrices in shared memory, of which each thread of a warp names a row of 16 bytes, see `program`."""
        return self._here("ldmatrix_t" if transposed else "ldmatrix", mem.dtype, lanes, (at,), mem)

    def emit(self, op: str, *args: Val, attr: Any = None) -> None:
        """An operation without a result; it stays here."""
        self._scopes[-1].block.stmts.append(Instr(op, None, args, attr))

    def here(self, op: str, like: Val, *args: Val, attr: Any = None) -> Val:
        """An operation whose result has the type of `like`; it stays here."""
        return self._here(op, like.dtype, like.lanes, args, attr)

    # placement ----------------------------------------------------------------------------------------------------
    def _val(self, dtype: DType, lanes: int, depth: int, name: str = "") -> Val:
        self._next += 1
        return Val(self._next, dtype, lanes, depth, name)

    def _guard(self) -> int:
        for depth in range(len(self._scopes) - 1, 0, -1):
            if self._scopes[depth].guarded:
                return depth
        return 0

    def _pure(self, op: str, dtype: DType, lanes: int, args: tuple[Val, ...], attr: Attr, key: object, floor: int = 0) -> Val:
        depth = floor  # (what is loaded again in a branch keeps what is computed of it in there)
        for a in args:
            if a.depth > depth:
                depth = a.depth
        scope = self._scopes[depth]
        full = (op, dtype, lanes, args, key)
        found = scope.cse.get(full)
        if found is None:
            found = scope.cse[full] = self._val(dtype, lanes, depth)
            scope.block.stmts.append(Instr(op, found, args, attr))
        return found

    def _here(self, op: str, dtype: DType, lanes: int, args: tuple[Val, ...], attr: Attr) -> Val:
        depth = len(self._scopes) - 1
        out = self._val(dtype, lanes, depth)
        self._scopes[depth].block.stmts.append(Instr(op, out, args, attr))
        return out
