"""The normal form of narrow integers: what ends in few bits, or is known to fit them, is computed in so many.

Sums and products of pixels are mostly written in 32 bits, so that nothing wraps, and whole numbers that meet no other type have 64.
A vector has twice as many lanes of 16 bits as of 32, and many processors have no instructions for some operators of 64.
First everything is tried in one type, in which intervals of all intermediate results show that nothing wraps. Else each result
is known by its lowest bits: those of sums, products and bits follow from those of the operands, wrapped or not. Where an
operator asks for more (an order, a shift to the right), intervals show that its operands are whole in a type of that size."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .. import index as ix
from ..body import Reduce, Value
from ..buffer import load_parts
from ..dtypes import DType, bool_, index, int16, int32, rounded, uint16, uint32
from ..index import Interval, split_remainders
from ..integer_ranges import KernelRanges, exact, inside, interval, magnitude_of, ranges_of
from ..kernel import Kernel
from ..node import COMPARE, COUNTS, Node, const, make, pending, reachable, reads_data, walk
from ..operators import cast
from ..rewriter import Rewriter

# index integers ---------------------------------------------------------------------------------------------
# Whole numbers of 64 bits that are computed of data are indices to Tilewright, sums of terms with coefficients: here
# they are integers of another type, as sums and products of two.


_COSTLY = {"mul", "floordiv", "remainder", "max", "min", "abs", "shr", "prod", "div", "mod", "where"}
"""What vectors of 64-bit integers have no instruction for on many processors, or have it at half the rate."""


def costly_data(n: Node) -> bool:
    """Whether an integer of 64 bits is computed of data by operators that cost much in so many bits (memoised)."""
    for m in pending(n, lambda m: "costly" in m._memo):
        inner = m.op not in ("load", "ref") and any(s._memo["costly"] for s in m.src)
        m._memo["costly"] = inner or (m.op in _COSTLY and m.dtype.is_int and m.dtype.size == 8 and reads_data(m))
    return bool(n._memo["costly"])


Of = Callable[[Node], Interval]


def integer(n: Node, to: DType, types: Iterable[DType], done: Mapping[Node, Node], of: Of) -> Node | None:
    """A sum, product, quotient or rest of indices in another type, modulo the numbers that it has; None of any other index, or where an
    operand is not `done`, or a dividend fits none of `types`."""
    if not all(s in done for s in n.src):
        return None
    if n.op == "sum":
        return _sum(n, to, tuple(types), done, of)
    if n.op == "prod":
        out = cast(done[n.src[0]], to)
        for s in n.src[1:]:
            out = make("mul", to, (out, cast(done[s], to)))
        return out
    found = _divided(n.op, n.src[0], n.arg, types, done, of) if n.op in ("div", "mod") else None
    return None if found is None else cast(found, to)


def _divided(op: str, x: Node, by: int, types: Iterable[DType], done: Mapping[Node, Node], of: Of) -> Node | None:
    kind = next((k for k in types if inside(of(x), k) and inside((by, by), k)), None)
    return None if kind is None else make("floordiv" if op == "div" else "remainder", kind, (cast(done[x], kind), const(by, kind)))


def _sum(n: Node, to: DType, types: tuple[DType, ...], done: Mapping[Node, Node], of: Of) -> Node:
    found, terms, c = split_remainders(n)
    made: list[tuple[Node, int]] = []
    for quotient, times in found:
        rest = _divided("mod", quotient.src[0], quotient.arg, types, done, of) if quotient.src[0] in done else None
        if rest is None:  # as it is written
            found, (terms, c) = [], ix.parts(n)
            made = []
            break
        made.append((cast(rest, to), times))
    made += [(cast(done[t], to), k) for t, k in terms.items() if k]
    made.sort(key=lambda e: e[1] < 0)  # (begins with what is added)
    if not made:
        return const(rounded(c, to), to)
    signed = [(k > 0, x if abs(k) == 1 else make("mul", to, (x, const(rounded(abs(k), to), to)))) for x, k in made]
    out = signed[0][1] if signed[0][0] else make("neg", to, signed[0][1:])
    for positive, term in signed[1:]:
        out = make("add" if positive else "sub", to, (out, term))
    if not c:
        return out
    return make("add" if c > 0 else "sub", to, (out, const(rounded(abs(c), to), to)))


# narrowing --------------------------------------------------------------------------------------------------
_MODULAR = {"add", "sub", "mul", "neg", "and", "or", "xor", "not"}
"""What is right in the lowest bits where its operands are."""
_ORDERED = {"max", "min", "shr", "floordiv", "remainder"}
"""What needs the whole of its operands."""
_ENDS = _MODULAR | _ORDERED | {"abs", "shl", "where", "popcount", "clz"}
"""What is computed in another type as it is in its own, as long as nothing wraps."""
Pair = tuple[DType, DType]
"""A signed type and the unsigned one of its size."""
SHORT: Pair = (int16, uint16)
WORD: Pair = (int32, uint32)


def narrow(kernel: Kernel) -> Kernel:
    """An equal kernel whose casts to integers of 8 and 16 bits are of expressions in 16 bits, and those to others of expressions in 32,
    where that changes no value; `kernel` itself where there are none."""
    if not any(_size_of(n) for root in _roots(kernel) for n in walk(root)) and not any(_is_costly(n) for n in _roots(kernel)):
        return kernel
    found = Narrow(kernel)
    out = found.run()
    return out if found.changed else kernel


def _roots(kernel: Kernel) -> Iterator[Node]:
    for v in kernel.values.values():
        yield v.body
    for s in kernel.stores:
        yield s.expr


def _computed(n: Node, size: int) -> bool:
    """Whether a node is an integer of more than `size` bytes that an operator makes of data."""
    return n.dtype.is_int and n.dtype.size > size and (costly_data(n) if n.dtype is index else n.op in _ENDS)


def _size_of(n: Node) -> int:
    """The bytes that a node's operand may be computed in: 2 of what casts a wider integer to 16 or 8 bits, 4 of what casts one of
    64 bits to 32 or to a float, or compares it. 0 of any other node."""
    if n.op == "cast":
        size = 4 if n.dtype.is_float else max(2, n.dtype.size) if n.dtype.is_int and n.dtype is not index else 8
        return size if size < 8 and _computed(n.src[0], size) else 0
    return 4 if n.op in COMPARE and any(_computed(s, 4) for s in n.src) else 0


def _is_costly(n: Node) -> bool:
    """Whether what is computed in 64 bits has operators that cost much there."""
    return _computed(n, 4) and costly_data(n)


def _is_negative(n: Node) -> Node | None:
    """x of x < 0."""
    return n.src[0] if n.op == "lt" and n.src[1].op == "const" and n.src[1].arg == 0 else None


def _sign_bit(n: Node) -> Node:
    """1 of a negative number of 16 bits: one shift, where a comparison is made a number by several steps."""
    return cast(n, uint16) >> 15


class Narrow(Rewriter):
    """Rewrites what `_size_of` finds, and wide values that are dear; `changed` where one could be."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self.changed = False
        self.range = KernelRanges(ranges_of(kernel))

    def node(self, n: Node) -> Node | None:
        size = _size_of(n)
        if not size:
            return None
        if n.op == "cast" and n.dtype.is_int and n.src[0].op == "where" and all(s.op == "const" for s in n.src[0].src[1:]):
            self.changed = True
            return make("where", n.dtype, (self.go(n.src[0].src[0]), *(const(rounded(s.arg, n.dtype), n.dtype) for s in n.src[0].src[1:])))
        pair = SHORT if size == 2 else WORD
        if n.op in COMPARE:
            found = self._all(n, pair).get(n)
        elif n.dtype.is_float:  # (floats of whole numbers without a sign take more steps)
            found = self.whole(n.src[0], (int32,))
        else:
            found = self.smaller(n.src[0], pair)
            if found is None and n.src[0].dtype.size == 8 and pair is SHORT:
                found = self.smaller(n.src[0], WORD)
        if found is None:
            return None
        self.changed = True
        return found if n.op in COMPARE else cast(found, n.dtype)

    def smaller(self, root: Node, pair: Pair) -> Node | None:
        """The lowest bits of `root`, computed in a type of that size; None where it cannot be done."""
        signed, unsigned = pair
        compared = pair is WORD or any(n.op in COMPARE for n in walk(root))  # (x86 compares with a sign)
        for to in (signed, unsigned) if compared else (unsigned, signed):
            found = self._in(root, to)
            if found is not None:
                return found
        return self._all(root, pair).get(root)

    def value(self, v: Value) -> Value:
        found = super().value(v)
        if isinstance(v.expr, Node):
            return Value(v.name, found.axes, self._root(v.expr), v.dtype)
        if isinstance(v.expr, Reduce) and isinstance(found.expr, Reduce):
            e = found.expr
            return Value(v.name, found.axes, replace(e, expr=self._root(v.expr.expr)), v.dtype)
        return found

    def stored(self, n: Node) -> Node:
        return self._root(n)

    def whole(self, root: Node, types: Sequence[DType]) -> Node | None:
        """`root` computed in 32 bits, of one of the `types`, all of whose values they hold; None where it cannot be done."""
        to = next((t for t in types if inside(self.range(root), t)), None)
        found = None if to is None else self.smaller(root, WORD)
        return None if found is None or to is None else cast(found, to)

    def _root(self, n: Node) -> Node:
        """What is kept or stored: computed in 32 bits where 64 are dear."""
        found = self.whole(n, WORD) if _is_costly(n) else None
        if found is None:
            return self.go(n)
        self.changed = True
        return cast(found, n.dtype)

    def _in(self, root: Node, to: DType) -> Node | None:
        """`root` computed in another type; None where something might wrap, or is of a kind that it cannot be done for."""
        done: dict[Node, Node] = {}
        for n in walk(root):
            if n.dtype is bool_:
                self._truth(n, to.size, done)
            elif n.dtype.is_int and inside(self.range(n), to):
                self._whole_in(n, to, done)
        return done.get(root)

    def _truth(self, n: Node, size: int, done: dict[Node, Node]) -> None:
        """A comparison of what was wider than so many bytes and is done, or several of such."""
        if n.op in COMPARE and n.src[0].dtype.size > size and all(s in done for s in n.src) and len({done[s].dtype for s in n.src}) == 1:
            done[n] = make(n.op, bool_, tuple(done[s] for s in n.src))
        elif n.op in ("and", "or", "xor", "not") and any(s in done for s in n.src):
            done[n] = make(n.op, bool_, tuple(self._either(s, done) for s in n.src))

    def _whole_in(self, n: Node, to: DType, done: dict[Node, Node]) -> None:
        """An integer that fits `to`, in that type."""
        if n.op == "const":
            done[n] = const(n.arg, to)
        elif n.dtype is index and not reads_data(n):
            if to.size == 4:  # (places that lanes shift by are simplified as what they are, and have no vectors of 16 bits)
                done[n] = cast(self.go(n), to)
        elif n.dtype is index and (found := integer(n, to, (to,), done, self.range)) is not None:
            done[n] = found
        elif n.op == "cast" and n.src[0].dtype is index and n.src[0] not in done:
            return
        elif n.op == "cast" and not n.src[0].dtype.is_float and inside(self.range(n.src[0]), n.dtype):
            done[n] = cast(self._either(n.src[0], done), to)
        elif n.op in ("load", "ref") or (n.op == "cast" and n.src[0].dtype.is_float) or (n.dtype is not to and not exact(n, self.range)):
            if n.dtype.size <= 2 or to.size == 4:  # (turning vectors of 32 bits into 16 takes as long as an operator)
                done[n] = cast(self.go(n), to)
        elif n.op in _ENDS - COUNTS:
            operands = n.src[1:] if n.op == "where" else n.src
            if n.op == "abs" and n.src[0] in done and to.kind == "u":
                done[n] = done[n.src[0]]
            elif all(s in done for s in operands):
                conditions = (self._either(n.src[0], done),) if n.op == "where" else ()
                done[n] = make(n.op, to, (*conditions, *(done[s] for s in operands)))

    def _all(self, root: Node, pair: Pair) -> dict[Node, Node]:
        """Expressions whose lowest bits are those of the nodes below `root`, of those where it can be done."""
        done: dict[Node, Node] = {}
        for n in walk(root):
            found = None
            if n.op in COMPARE:
                found = self._comparison(n, pair, done)
            elif n.dtype is bool_:
                self._truth(n, pair[0].size, done)
            elif n.dtype.is_int:
                found = self._low(n, pair, done)
            if found is not None:
                done[n] = found
        return done

    def _low(self, n: Node, pair: Pair, done: dict[Node, Node]) -> Node | None:
        """The lowest bits of an integer, of which those of its operands are `done` where that can be."""
        op, size = n.op, pair[0].size
        to = pair[0] if inside(self.range(n), pair[0]) else pair[1]
        if op == "const":
            return const(rounded(n.arg, to), to)
        if n.dtype is index and not reads_data(n):
            return cast(self.go(n), to) if size == 4 and inside(self.range(n), to) else None
        if n.dtype is index and (of_index := integer(n, to, pair, done, self.range)) is not None:
            return of_index
        if n.dtype.size < size:  # (what wraps there has other bits)
            return cast(self.go(n), to)
        if op == "cast" and not n.src[0].dtype.is_float:
            x = n.src[0]
            if x.dtype is bool_:
                sign = _is_negative(x) if size == 2 else None
                known = sign is not None and sign in done and inside(self.range(sign), int16)
                return cast(_sign_bit(done[sign]) if sign is not None and known else self._either(x, done), to)
            return done.get(x)
        found = self._operator(n, to, pair, done) if op in _ENDS and all(s in done for s in n.src[op == "where" :]) else None
        whole = n.dtype.size == size or (size == 4 and op in ("load", "ref"))
        return cast(self.go(n), to) if found is None and whole else found

    def _operator(self, n: Node, to: DType, pair: Pair, done: dict[Node, Node]) -> Node | None:
        """The same for an operator of operands that are done."""
        op, src = n.op, n.src
        if op in _MODULAR:
            return make(op, to, tuple(cast(done[s], to) for s in src))
        if op == "where":
            return make(op, to, (self._either(src[0], done), *(cast(done[s], to) for s in src[1:])))
        if op in COUNTS:
            return self._counted(n, to, pair, done)
        if op == "shl":
            return make(op, to, (cast(done[src[0]], to), cast(done[src[1]], to))) if inside(self.range(src[1]), to) else None
        sized = src[0] if op == "abs" else magnitude_of(n)
        if sized is not None and inside(self.range(sized), pair[0]):  # (that of the least number is right without a sign)
            return cast(make("abs", pair[0], (cast(done[sized], pair[0]),)), to)
        if op == "abs":
            return cast(done[src[0]], to) if self.range(src[0])[0] >= 0 else None
        return self._whole(n, to if op == "shr" else None, pair, done)

    def _counted(self, n: Node, to: DType, pair: Pair, done: dict[Node, Node]) -> Node | None:
        """Bits of a number that fits, where fewer lie above the highest one that is set."""
        unsigned = pair[1]
        if not inside(self.range(n.src[0]), unsigned):
            return None
        found = make(n.op, unsigned, (cast(done[n.src[0]], unsigned),))
        more = 8 * (n.dtype.size - unsigned.size)
        return cast(found + more if n.op == "clz" and more else found, to)

    def _either(self, n: Node, done: dict[Node, Node]) -> Node:
        """A node as it was done, or as it was."""
        return done[n] if n in done else self.go(n)

    def _comparison(self, n: Node, pair: Pair, done: dict[Node, Node]) -> Node | None:
        return self._whole(n, bool_, pair, done) if n.src[0].dtype.size > pair[0].size and all(s in done for s in n.src) else None

    def _whole(self, n: Node, dtype: DType | None, pair: Pair, done: dict[Node, Node]) -> Node | None:
        """An operator in a type that has all values of its operands, with a result of `dtype` (of that type, where None)."""
        for to in pair:  # (x86 compares with a sign)
            if all(inside(self.range(s), to) for s in n.src):
                made = make(n.op, bool_ if dtype is bool_ else to, tuple(cast(done[s], to) for s in n.src))
                return made if dtype is None or dtype is bool_ else cast(made, dtype)
        return None


_COMBINES = ("add", "max", "min")


def narrow_sums(kernel: Kernel) -> Kernel:
    """An equal kernel whose sums and extremes of integers have the smallest type of 16 or 32 bits that their values fit, where nothing
    that they are computed of is wider; `kernel` itself where none is narrower."""
    known = KernelRanges(ranges_of(kernel))
    found = {v.name: to for v in kernel.body if isinstance(v, Value) and (to := _smaller_type(kernel, v, known)) is not None}
    return _Narrower(kernel, found).run() if found else kernel


def _smaller_type(kernel: Kernel, v: Value, known: KernelRanges) -> DType | None:
    """The smaller type of a reduction; None where there is none."""
    e = v.expr
    if not isinstance(e, Reduce) or e.combine not in _COMBINES or v.dtype is not e.dtype:
        return None
    if not e.dtype.is_int or e.dtype.size <= 2 or (e.dtype is index and not _only_cast(kernel, v.name)):
        return None
    values = interval(v, known)
    for pair in (WORD,) if _multiplies(e.expr) else (SHORT, WORD):
        to = next((t for t in pair if values is not None and inside(values, t)), None)
        if to is not None and to.size < e.dtype.size and max(_sizes(e.expr), default=8) <= to.size and _smaller(kernel, e.expr, pair):
            return to
    return None


def _only_cast(kernel: Kernel, name: str) -> bool:
    """Whether who reads a value only turns it into another type, or stores it: as an index it has to be what it is."""
    for n in {m for e in kernel.expressions() for m in walk(e)}:
        if any(s.op == "ref" and s.arg == name for s in n.src) and (n.op != "cast" or n.dtype is index):
            return False
    return not any(i.op == "ref" and i.arg == name for s in kernel.stores for i in s.indices)


def _multiplies(body: Node) -> bool:
    """Whether data is multiplied by data: what processors have for sums of such products adds up in 32 bits."""
    return any(m.op in ("mul", "prod") and all(any(_sizes(s)) for s in m.src) for m in walk(body))


def _smaller(kernel: Kernel, body: Node, pair: Pair) -> bool:
    """Whether an expression can be computed in a smaller type."""
    return Narrow(kernel).smaller(body, pair) is not None


def _sizes(n: Node) -> Iterator[int]:
    """The bytes of what an expression reads, but for places: of lanes of mixed sizes some would have to be turned into the others."""

    def place(m: Node) -> bool:
        return m.dtype is index and not reads_data(m)

    def behind(m: Node) -> Sequence[Node]:
        if m.op in ("load", "ref"):
            return [mask] if m.op == "load" and (mask := load_parts(m)[2]) is not None else ()
        return () if place(m) else m.src

    for m in reachable([n], behind):
        if m.op in ("load", "ref"):
            yield m.dtype.size
        elif place(m):  # (truths of places are packed: fewer steps than widening what is read)
            yield SHORT[0].size


class _Narrower(Rewriter):
    """Gives sums their smaller types, and whoever reads them what they were."""

    def __init__(self, kernel: Kernel, found: dict[str, DType]) -> None:
        super().__init__(kernel)
        self.found = found

    def node(self, n: Node) -> Node | None:
        if n.op != "ref" or n.arg not in self.found:
            return None
        return cast(make("ref", self.found[n.arg], tuple(self.go(s) for s in n.src), n.arg), n.dtype)

    def value(self, v: Value) -> Value:
        found, to = super().value(v), self.found.get(v.name)
        if to is None or not isinstance(found.expr, Reduce):
            return found
        e = found.expr
        return Value(v.name, found.axes, Reduce(e.combine, e.axes, cast(e.expr, to), to), to)
