"""Pulling: a group of stored nodes as one kernel. Elements are followed from the stores back to what is in memory.

The kernel that comes out is raw: pointwise values have no names, every reduction has axes of its own, and every way of
reading an array is a parameter of its own (STAGE names a parameter: three slices of one array could not be staged
apart). `ir.normal_form.tidy` gives it its names, `online` its folds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ...ir import dtypes as D
from ...ir import functions as F
from ...ir import index as ix
from ...ir import node as N
from ...ir import operators as O
from ...ir.body import IDENTITY, Reduce, Scan, Store, Value
from ...ir.buffer import Buffer, load
from ...ir.dtypes import DType, bool_, index
from ...ir.errors import KernelError
from ...ir.kernel import Kernel
from ...ir.node import COMPARE, UNARY, Node, const
from ..graph import index_maps as maps
from ..graph.index_maps import Indices, Shape
from ..graph.nodes import Gathered, Loaded, Scattered, TensorNode, range_of, walk
from ..graph.symbolic_sizes import axis, extent, extents, number
from ..partition.loop_axes import Splits, loops_of, split_axes, whole
from .kernel_names import inside, kernel_name


@dataclass(frozen=True)
class LoopPlan:
    """`loops`: by id of a stored node, a node that it is computed from and the order of that node's dimensions in which
    loops run. `kept`: by id, types of stored nodes in memory that are not the nodes' own. `splits`: by id of a computed
    node, dimensions that loops go through in parts."""

    loops: Mapping[int, tuple[TensorNode, tuple[int, ...]]] = field(default_factory=dict)
    kept: Mapping[int, DType] = field(default_factory=dict)
    splits: Mapping[int, Splits] = field(default_factory=dict)


_ARITH = frozenset({"add", "sub", "mul", "div", "max", "min", *COMPARE})
_DIVISION = frozenset({"floordiv", "remainder"})
_BITS = frozenset({"and", "or", "xor", "shl", "shr"})
_FUNCTIONS = {"pow": "power"}


def element(op: str, src: Sequence[Node]) -> Node:
    """The operator `op` on elements."""
    if op == "where":
        return F.where(src[0], _under(src[0], src[1], 1), _under(src[0], src[2], 2))
    if all(s.dtype is bool_ for s in src):
        src, op = list(src), _BOOL.get(op, op)
    if op in ("and", "or") and src[0].dtype is bool_:
        return O.logical(op, src[0], src[1])
    if op in _ARITH:
        return O.arith(op, src[0], src[1])
    if op == "neg":
        return -src[0]
    if op == "abs" and src[0].dtype is index:
        return O.arith("max", src[0], -src[0])  # an index has no other absolute value
    if op in UNARY:
        return O.unary(op, src[0])
    if op in _DIVISION:
        by_zero = (
            src[0].dtype is index and src[1].op == "const" and src[1].arg == 0
        )  # (which is 0, as of all integers; an index has no such term)
        return src[1] if by_zero else O.divide(op, src[0], src[1])
    if op in _BITS:
        return O.integer(op, src[0], src[1])
    found: Callable[..., Node] | None = getattr(F, _FUNCTIONS.get(op, op), None)
    if found is None:
        raise KernelError(f"no kernel can compute {op} of {src[0].dtype} yet")
    return found(*src)


def _under(cond: Node, x: Node, side: int) -> Node:
    """`x`, which counts only where `cond` holds (side 1) or fails (side 2), with selections by the same condition decided.
    (The scores of attention are masked before exp, and its weights after.)"""
    table = {n: n.src[side] for n in N.walk(x) if n.op == "where" and n.src[0] is cond}
    return O.substitute(x, table) if table else x


_BOOL = {"xor": "ne", "max": "or", "min": "and", "mul": "and", "add": "or"}
"""Operators on bool by others: a sum of bools is their `or`, as in NumPy."""


def known(op: str) -> bool:
    """Whether kernels can compute the operator."""
    return op == "where" or op in _ARITH | UNARY | _DIVISION | _BITS or hasattr(F, _FUNCTIONS.get(op, op))


def is_load(e: Node) -> bool:
    """Whether an element is a load, converted or not: where its mask fails it is 0."""
    while e.op == "cast":
        e = e.src[0]
    return e.op == "load"


# reads ------------------------------------------------------------------------------------------------------
# Ways of reading an array in one kernel, each a parameter of its own.


NEAR = 16
"""Offsets up to which reads of an array that differ by constants share a parameter (a stencil's taps do, slices do not)."""

Terms = tuple[tuple[object, ...], ...]
"""Of each dimension, what is added up in its index beside a constant."""


@dataclass
class ReadParameter:
    """A way in which a nest reads an array, and its parameter."""

    terms: Terms
    offsets: tuple[int, ...]
    buffer: Buffer

    def near(self, terms: Terms, offsets: tuple[int, ...]) -> bool:
        """Whether reads with these offsets are a stencil's taps beside this one. Where a dimension is read at a constant
        (one of several stacked arrays: queries, keys, values), another constant is another array, however near."""
        pairs = zip(self.offsets, offsets, self.terms, terms)
        return all(a == b or (bool(mine) and bool(other) and abs(a - b) <= NEAR) for a, b, mine, other in pairs)


class ReadParameters:
    """`buffers`: the parameters of a kernel's inputs so far, in order, each with the node whose memory it is."""

    def __init__(self, kept: Mapping[int, DType]) -> None:
        """`kept`: by id, types of nodes in memory that are not the nodes' own."""
        self.kept = kept
        self.buffers: dict[Buffer, TensorNode] = {}
        self._known: dict[tuple[int, Shape], list[Buffer]] = {}
        self._ways: dict[tuple[str, int, Shape], list[ReadParameter]] = {}

    def buffer(self, nest: str, t: TensorNode, shape: Shape, at: Indices) -> Buffer:
        """The parameter for one way of reading `t`, as an array of a shape: in a nest, reads that differ by more than small
        offsets have parameters of their own."""
        terms = tuple(tuple(sorted(ix.parts(i)[0].items(), key=lambda p: ix.order_key(p[0]))) for i in at)
        offsets = tuple(ix.parts(i)[1] for i in at)
        ways = self._ways.setdefault((nest, id(t), shape), [])
        for w in ways:
            if w.terms == terms and w.near(terms, offsets):
                return w.buffer
        known = self._known.setdefault((id(t), shape), [])
        far = [b for b in known if not any(w.buffer is b for w in ways) and self._near(b, (id(t), shape), (terms, offsets))]
        if far:
            buffer = far[0]
        else:
            buffer = Buffer(f"in{len(self.buffers)}", self.kept.get(id(t), t.dtype), extents(shape), "in", range=range_of(t))
            self.buffers[buffer] = t
            known.append(buffer)
        ways.append(ReadParameter(terms, offsets, buffer))
        return buffer

    def _near(self, buffer: Buffer, array: tuple[int, Shape], at: tuple[Terms, tuple[int, ...]]) -> bool:
        """Whether another nest reads the parameter at about these offsets."""
        every = (w for (_, i, s), ways in self._ways.items() if (i, s) == array for w in ways)
        return any(w.buffer is buffer and w.near(*at) for w in every)


# pull -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Pulled:
    """A raw kernel, and the node behind each of its inputs and outputs, in order."""

    kernel: Kernel
    inputs: tuple[TensorNode, ...]
    outputs: tuple[TensorNode, ...]


def pull(
    roots: Sequence[TensorNode], stored: Callable[[TensorNode], bool], by_memory: bool = False, plan: LoopPlan | None = None
) -> Pulled:
    """The kernel of `roots`. `stored` says of a node whether it is in memory before the kernel runs; a root is not.
    `by_memory`: loops run in the order in which outputs lie in memory (else in that of the computed node's
    dimensions, or as `plan` says): what a contraction's kernel stores through a permutation are then whole rows."""
    return _Pull(roots, stored, by_memory, plan or LoopPlan()).pulled()


class _Pull:
    def __init__(self, roots: Sequence[TensorNode], stored: Callable[[TensorNode], bool], by_memory: bool, plan: LoopPlan) -> None:
        self.stored, self.by_memory = stored, by_memory
        self.loops, self.kept, self.splits = plan.loops, plan.kept, plan.splits
        self.own = {id(r) for r in roots}
        # readers before what they read, and whatever the graph's order is: kernels that store the same have one key
        self.roots = sorted(roots, key=lambda r: (-r.size, -self._work(r)))
        self.read = ReadParameters(self.kept)
        self.values: list[Value] = []
        self.reductions: dict[int, tuple[str, Indices]] = {}
        self.memo: dict[tuple[int, Indices, Node | None, str], Node] = {}
        self.seen: dict[int, Indices] = {}
        self.nest = ""
        self.count = 0

    def pulled(self) -> Pulled:
        stores, outs = [], []
        for n, root in enumerate(self.roots):
            top = self._shaped(root)
            buffer = Buffer(f"out{n}" if len(self.roots) > 1 else "out", self.kept.get(id(root), root.dtype), extents(top.shape), "out")
            stores.append(self._store(top, buffer, self.loops.get(id(root))))
            outs.append(buffer)
        # of results smaller than the largest, those that need less come first, as in the named kernels (mean, then deviation)
        order = sorted(range(len(outs)), key=lambda n: (-self.roots[n].size, n if self.roots[n].size == self.roots[0].size else -n))
        stores, outs = [stores[n] for n in order], [outs[n] for n in order]
        kernel = Kernel(kernel_name(inside(self.roots, self.stored)), tuple(self.values), tuple(stores), (*self.read.buffers, *outs))
        return Pulled(kernel, tuple(self.read.buffers.values()), tuple(self.roots[n] for n in order))

    def _work(self, root: TensorNode) -> int:
        """Nodes behind a root, down to memory."""
        return sum(1 for _ in walk([root], lambda n: n is not root and id(n) not in self.own and self.stored(n)))

    def _shaped(self, root: TensorNode) -> TensorNode:
        """The node behind a root's last reshapes: memory is written in its shape, which spares index arithmetic."""
        while root.op == "view" and root.arg.reshape and root.src[0].data is None and not self.stored(root.src[0]):
            root = root.src[0]
        return root

    # stores -------------------------------------------------------------------------------------------------------
    def _store(self, root: TensorNode, buffer: Buffer, order: tuple[TensorNode, tuple[int, ...]] | None) -> Store:
        base, views = root, []
        while base.op == "view" and base.arg.bijective and base.src[0].data is None and not self.stored(base.src[0]):
            views.append(base.arg)
            base = base.src[0]
        self.nest = buffer.name
        if base.op == "scatter":
            return self._scatter(base, buffer, views)
        axes = self._axes(base, buffer.name)
        expr = self.elem(base, axes, None, top=True)
        at: Indices = axes
        for v in reversed(views):
            at = v.back(at)
        loops = loops_of(axes)
        if order is not None and order[0].shape == base.shape:
            loops = [axes[d] for d in order[1] if axes[d].op == "axis"]
        elif self.by_memory:
            first = {a: next((d for d, i in enumerate(at) if a in N.axes_of(i)), -1) for a in loops}
            loops.sort(key=lambda a: first[a])  # stable: parts of one dimension keep their order
        return Store(buffer, at, O.cast(expr, buffer.dtype), tuple(loops))

    def _axes(self, base: TensorNode, name: str) -> Indices:
        """Axes for a store: those at which an earlier store reads the node, if it reads all of it, each element once; else
        those of an earlier store of the same shape; else new ones."""
        read = self.seen.get(id(base))
        if read is not None and whole(read, base.shape) and len({i for i in read if i.op == "axis"}) == sum(n != 1 for n in base.shape):
            return read
        axes = split_axes(f"{name}_", base.shape, self.splits.get(id(base), ()))
        self.seen[id(base)] = axes
        return axes

    def _scatter(self, node: TensorNode, buffer: Buffer, views: list[maps.IndexMap]) -> Store:
        to: Scattered = node.arg
        values, *index = node.src
        axes = tuple(axis(f"{buffer.name}_{d}", n) if n != 1 else const(0) for d, n in enumerate(values.shape))
        expr = self.elem(values, axes, None)
        table = {a: i for a, i in zip(to.axes, axes) if a.op == "axis"}
        at, mask = [], None
        for i, n in zip(to.indices, node.shape):
            loaded = isinstance(i, Loaded)
            place = O.cast(self.elem(index[i.place], axes, None), D.index) if isinstance(i, Loaded) else O.substitute(i, table)
            inside = O.logical("and", place >= 0, place < extent(n))
            if inside.op != "const" or not inside.arg:
                mask = inside if mask is None else mask & inside
            at.append(_clamped(place, n) if loaded else place)
        where: Indices = tuple(at)
        for v in reversed(views):
            where = v.back(where)
        return Store(buffer, where, O.cast(expr, buffer.dtype), tuple(a for a in axes if a.op == "axis"), to.combine, mask)

    # elements -----------------------------------------------------------------------------------------------------
    def elem(self, t: TensorNode, at: Indices, mask: Node | None, top: bool = False) -> Node:
        """The element of `t` at an index; `mask`: where it is wanted at all (memory is not touched elsewhere)."""
        key = (id(t), at, mask, self.nest if t.op != "reduce" else "")
        found = self.memo.get(key)
        if found is None:
            self.seen.setdefault(id(t), at)
            found = self.memo[key] = self._elem(t, at, mask, top)
        return found

    def _elem(self, t: TensorNode, at: Indices, mask: Node | None, top: bool) -> Node:
        if not top and self._memory(t):
            return load(self.read.buffer(self.nest, t, t.shape, at), at, mask)
        if t.op == "const":
            return const(t.arg, t.dtype.compute)
        if t.op in ("iota", "extent"):
            return at[0] if t.op == "iota" else number(t.arg)
        if t.op in ("cast", "after"):
            return O.cast(self.elem(t.src[0], at, mask), t.dtype.compute)
        if t.op == "elementwise" and t.arg == "rounded":
            return _rounded(self.elem(t.src[0], at, mask), t.dtype)
        if t.op == "elementwise":
            return element(t.arg, [self.elem(s, at, mask) for s in t.src])
        if t.op == "view":
            return self._view(t, at, mask)
        if t.op == "gather":
            return self._gather(t, at, mask)
        if t.op == "reduce":
            return self._reduce(t, at)
        if t.op == "scan":
            return self._scan(t, at)
        raise KernelError(f"{t!r} cannot be part of a kernel")

    def _view(self, t: TensorNode, at: Indices, mask: Node | None) -> Node:
        source, by = t.src[0], t.arg
        if by.reshape and by.mask is None and self._memory(source):
            return load(self.read.buffer(self.nest, source, t.shape, at), at, mask)
        to, m = by(at)
        if by.reshape and m is None and self._lies(source) and any(i.op in ("div", "mod") for e in to for i in N.walk(e)):
            return self._reshaped(source, t, at, mask)
        if m is not None and m.op == "const":
            if not m.arg:
                return const(0, t.dtype.compute)
            m = None
        both = m if mask is None else mask if m is None else mask & m
        e = self.elem(source, to, both)
        return e if m is None or is_load(e) else O.where(m, e, const(0, e.dtype))

    def _lies(self, t: TensorNode) -> bool:
        """Whether a node is memory, or conversions of it."""
        while t.op == "cast" and not self._memory(t):
            t = t.src[0]
        return self._memory(t)

    def _memory(self, t: TensorNode) -> bool:
        return id(t) not in self.own and self.stored(t)

    def _reshaped(self, t: TensorNode, to: TensorNode, at: Indices, mask: Node | None) -> Node:
        """Memory behind conversions, read in the shape of `to`: that spares divisions."""
        if self._memory(t):
            return load(self.read.buffer(self.nest, t, to.shape, at), at, mask)
        return O.cast(self._reshaped(t.src[0], to, at, mask), t.dtype.compute)

    def _gather(self, t: TensorNode, at: Indices, mask: Node | None) -> Node:
        source, *index = t.src
        by: Gathered = t.arg
        table = {a: i for a, i in zip(by.axes, at) if a.op == "axis"}
        to = tuple(
            _clamped(O.cast(self.elem(index[i.place], at, mask), D.index) if isinstance(i, Loaded) else O.substitute(i, table), n)
            for i, n in zip(by.indices, source.shape)
        )
        return self.elem(source, to, mask)

    # reductions ---------------------------------------------------------------------------------------------------
    def _reduce(self, t: TensorNode, at: Indices) -> Node:
        if not whole(at, t.shape):
            return self._instance(t, at)
        if id(t) not in self.reductions:
            name = self._name()
            own = tuple(axis(f"{name}_{d}", n) if n != 1 else const(0) for d, n in enumerate(t.shape))
            self._value(t, name, own, own)
        name, own = self.reductions[id(t)]
        return N.ref(name, [i for a, i in zip(own, at) if a.op == "axis"], _accumulator(t))

    def _value(self, t: TensorNode, name: str, own: Indices, keep: Indices) -> None:
        combine = t.arg[0]
        full, summed = _spread(t, name, keep)
        before, self.nest = self.nest, name
        acc = _accumulator(t)
        body = O.cast(self.elem(t.src[0], full, None), acc)
        self.nest = before
        self.reductions[id(t)] = (name, own)
        axes = tuple(a for a in own if a.op == "axis")
        self.values.append(Value(name, axes, Reduce(combine, summed, body, acc), acc))

    def _instance(self, t: TensorNode, at: Indices) -> Node:
        """A reduction of which a part is read, or at computed places: one of its own, over the reader's axes."""
        combine = t.arg[0]
        name, acc = self._name(), _accumulator(t)
        full, summed = _spread(t, name, at)
        before, self.nest = self.nest, name
        body = O.cast(self.elem(t.src[0], full, None), acc)
        self.nest = before
        outer = sorted(N.axes_of(body) - set(summed), key=lambda a: str(a.arg.name))
        mine = {a: axis(f"{name}_{a.arg.name}", a.arg.extent) for a in outer}
        self.values.append(Value(name, tuple(mine.values()), Reduce(combine, summed, O.substitute(body, mine), acc), acc))
        return N.ref(name, outer, acc)

    def _scan(self, t: TensorNode, at: Indices) -> Node:
        combine, dim = t.arg
        if id(t) not in self.reductions:
            name = self._name()
            own = tuple(axis(f"{name}_{d}", n) if n != 1 else const(0) for d, n in enumerate(t.shape))
            before, self.nest = self.nest, name
            acc = _accumulator(t)
            body = O.cast(self.elem(t.src[0], own, None), acc)
            self.nest = before
            self.reductions[id(t)] = (name, own)
            self.values.append(Value(name, tuple(a for a in own if a.op == "axis"), Scan(combine, own[dim], body, acc), acc))
        name, own = self.reductions[id(t)]
        return N.ref(name, [i for a, i in zip(own, at) if a.op == "axis"], _accumulator(t))

    def _name(self) -> str:
        self.count += 1
        return f"r{self.count - 1}"


def _rounded(x: Node, to: D.DType) -> Node:
    """A number of a narrow float type, in the type that it is computed in. (Wide integers keep their digits until they are rounded.)"""
    if not x.dtype.is_float:
        x = O.cast(x, D.float32 if x.dtype.size <= 2 else D.float64)
    return O.cast(O.cast(x, to), to.compute)


def _accumulator(t: TensorNode) -> D.DType:
    return t.dtype.acc if t.arg[0] in IDENTITY else t.dtype.compute


def _spread(t: TensorNode, name: str, keep: Indices) -> tuple[Indices, tuple[Node, ...]]:
    """(the index of the source, the axes summed over) for an index of a reduction's result."""
    rest, full, summed = iter(keep), [], []
    for d, n in enumerate(t.src[0].shape):
        if d in t.arg[1]:
            full.append(axis(f"{name}_k{d}", n) if n != 1 else const(0))
            if n != 1:
                summed.append(full[-1])
        else:
            full.append(next(rest))
    return tuple(full), tuple(summed)


def _clamped(place: Node, n: int) -> Node:
    """An index of a gather, kept inside of its dimension unless its range proves that it is."""
    return ix.minmax("max", ix.minmax("min", place, number(n - 1 if n != 0 else 0)), const(0))
