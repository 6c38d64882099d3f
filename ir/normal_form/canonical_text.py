"""The canonical form of a kernel: one text, and one hash, for all ways of writing the same thing.

Written from `normalise(kernel)`: axes, values and buffers are numbered by first visit from the stores, commutative
operands sorted by name-free hash (`Colours`), accesses written as element offsets, floats in hex. No names and no
ids are left, so the text is equal in every process and for every choice of names. Cached schedules are kept in
canonical names; `to_canonical` and `from_canonical` translate."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Protocol

from .. import index as ix
from ..body import Fold, Reduce, Scan, Store, Value, values_of
from ..buffer import Buffer, Extent, load_parts, loads
from ..dtypes import DType, index, rounded
from ..errors import OptError
from ..kernel import Kernel
from ..node import COMMUTATIVE, Node, as_node, const, pending, ref, walk
from ..operators import cast, substitute
from .rule_list import normalise

# structural hash --------------------------------------------------------------------------------------------
# Name-free hashes of expressions, values and buffers: the order in which commutative operands are written down.
#
# An axis is known by how its nest binds it (role, place, extent), a buffer by its type, size and the contexts it is
# read in, a value by its definition. One pass down from the stores refines the buffers (Weisfeiler and Leman's colour
# refinement); what is still equal then is interchangeable as far as this looks, and parameter order decides.


def digest(*parts: object) -> str:
    """A short stable hash of nested text."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=12).hexdigest()


def number(n: Node) -> str:
    """A constant as text: integers in decimal, floats in hex after rounding to their type."""
    value = rounded(n.arg, n.dtype)
    if isinstance(value, float):
        return "nan" if value != value else value.hex()
    return str(value)


def flat(buffer: Buffer, indices: tuple[Node, ...]) -> Node:
    """The element offset of `indices` in row-major order."""
    out = const(0)
    for i, extent in zip(indices, buffer.shape, strict=True):
        out = ix.add(ix.mul(out, as_node(extent)), i)
    return out


def elements(shape: Iterable[Extent]) -> Node:
    """The number of elements of a shape, as an index."""
    sizes = [as_node(d) for d in shape]
    out = const(prod(int(s.arg) for s in sizes if s.op == "const"))
    for s in sizes:
        out = out if s.op == "const" else ix.mul(out, s)
    return out


def commutes(n: Node) -> bool:
    """Whether the operands of `n` may be written in any order."""
    return n.op in COMMUTATIVE or n.op == "prod"


class Colours:
    """Hashes for one kernel. With `erase`, extents, sizes and most constants do not count (see `canonical.loose`); with `order`
    too, for `Colours.order`, neither do the ranks of buffers."""

    def __init__(self, kernel: Kernel, erase: bool = False, order: bool = False) -> None:
        self.kernel, self.erase = kernel, erase
        self.flatten = not erase or order
        self.rough = None if erase else Colours(kernel, erase=True, order=True)
        self._rough_nests: dict[int, dict[Node, str]] = {}
        self.place = {b: i for i, b in enumerate(kernel.buffers)}
        self.buffers: dict[Buffer, str] = {b: self._plain(b) for b in kernel.buffers}
        self.nests: dict[Value | Store, dict[Node, str]] = {}
        self._bottom_up()
        self._refine()
        self._bottom_up()

    # what a hash sees ---------------------------------------------------------------------------------------------
    def constant(self, n: Node) -> str:
        """A constant; with `erase` only the special ones keep their value."""
        return "?" if self.erase and n.arg not in (0, 1, float("inf"), float("-inf")) else number(n)

    def divisor(self, n: Node) -> str:
        """The divisor of a div or mod."""
        return "?" if self.erase else str(n.arg)

    def factor(self, k: int) -> str:
        """A coefficient of an index; with `erase` only whether it is a unit step (others are strides, and so extents)."""
        return "?" if self.erase and abs(k) != 1 else str(k)

    def access(self, buffer: Buffer, indices: tuple[Node, ...]) -> tuple[Node, ...]:
        """What tells two accesses apart: the element offset, or with `erase` the indices (strides are extents)."""
        return (flat(buffer, indices),) if self.flatten else indices

    def of(self, n: Node, nest: dict[Node, str]) -> str:
        """The hash of an expression in a nest (`nest` starts with the hashes of its axes and is the memo)."""
        for m in pending(n, nest.__contains__):
            nest[m] = self._node(m, nest)
        # offsets are built while walking, so a node below them may be new
        return nest[n]

    def order(self, nodes: Iterable[Node], nest: dict[Node, str]) -> list[Node]:
        """Commutative operands in canonical order.

        Extents decide last: kernels that differ in them alone number their buffers alike, so an option means the same in both."""
        rough, known = self.rough, self._rough_nests.get(id(nest), {})
        nodes = list(nodes)
        keys = {n: ("" if rough is None else rough.of(n, known), self.of(n, nest)) for n in nodes}
        if len(set(keys.values())) == len(keys):
            return sorted(nodes, key=keys.__getitem__)
        return sorted(nodes, key=lambda n: (keys[n], self._places(n)))

    def _places(self, n: Node) -> list[int]:
        return sorted(self.place[load_parts(m)[0]] for m in walk(n) if m.op == "load")

    # bottom up ----------------------------------------------------------------------------------------------------
    def _plain(self, b: Buffer) -> str:
        size: tuple[object, ...] = () if self.flatten else (len(b.shape),)
        if not self.erase:
            size = (self.extent(elements(b.shape)), b.range, *("ascending",) * b.ascending, *("regular",) * b.regular)
            size += (b.pattern,) if b.pattern else ()
        return digest("buffer", b.dtype.name, b.role, b.constant, *size)

    def extent(self, extent: Extent) -> str:
        """An extent without names."""
        node = as_node(extent)
        if self.erase:
            return "?"
        return str(node.arg) if node.op == "const" else self.of(node, {})

    def _bottom_up(self) -> None:
        self.values: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.nests.clear()
        self._rough_nests.clear()
        for item in self.kernel.body:
            if isinstance(item, Fold):
                self._fold(item)
            else:
                self.values[item.name] = self._value(item)

    def _fold(self, item: Fold) -> None:
        for v in item.block:
            self.values[v.name] = self._value(v)
        for i, c in enumerate(item.components):
            self.arguments |= {f"{side}.{c}": f"{side}{i}" for side in "ab"}
        state = [self.of(e, {}) for e in (*item.monoid.identity, *item.monoid.merge)]
        whole = digest("fold", [self.values[c] for c in item.components], state, item.monoid.associative, item.monoid.commutative)
        for i, c in enumerate(item.components):
            self.values[c] = digest("component", whole, i)

    def nest(self, of: Value | Store) -> dict[Node, str]:
        """The axes of a nest, known by role, place and extent; also the memo of its expressions."""
        found = self.nests.get(of)
        if found is None:
            reduced = of.reduce_axes if isinstance(of, Value) else ()
            found = {a: digest("axis", i, self.extent(a.arg.extent)) for i, a in enumerate(of.axes)}
            found |= {a: digest("reduced", i, self.extent(a.arg.extent)) for i, a in enumerate(reduced)}
            self.nests[of] = found
            if self.rough is not None:
                self._rough_nests[id(found)] = self.rough.nest(of)
        return found

    def _value(self, v: Value) -> str:
        nest = self.nest(v)
        kind: tuple[object, ...] = ("point",)
        if isinstance(v.expr, Reduce):
            kind = ("reduce", v.expr.combine, v.expr.dtype.name, *_order(v.expr))
        elif isinstance(v.expr, Scan):
            kind = ("scan", v.expr.combine, v.expr.dtype.name, nest[v.expr.axis])
        return digest(kind, v.dtype.name, [nest[a] for a in (*v.axes, *v.reduce_axes)], self.of(v.body, nest))

    def _node(self, n: Node, nest: dict[Node, str]) -> str:
        op = n.op
        if op == "const":
            return digest("const", n.dtype.name, self.constant(n))
        if op == "sym":
            return digest("sym", n.arg.lo, n.arg.hi)
        if op == "axis":
            return digest("axis", self.extent(n.arg.extent))
        if op == "arg":
            return digest("arg", self.arguments.get(n.arg, n.arg))
        if op == "load":
            buffer, indices, mask = load_parts(n)
            at = [self.of(i, nest) for i in self.access(buffer, indices)]
            return digest("load", self.buffers[buffer], at, None if mask is None else nest[mask])
        if op == "ref":
            return digest("ref", self.values[n.arg], [nest[s] for s in n.src])
        if op == "sum":
            coeffs, c = n.arg
            return digest(
                "sum", sorted((self.factor(k), nest[s]) for s, k in zip(n.src, coeffs, strict=True)), "?" if self.erase and c else c
            )
        src = [nest[s] for s in n.src]
        arg = self.divisor(n) if op in ("div", "mod") and n.dtype is index else n.arg
        return digest(op, n.dtype.name, sorted(src) if commutes(n) else src, arg)

    # top down -----------------------------------------------------------------------------------------------------
    def _refine(self) -> None:
        contexts: dict[str, list[str]] = {}
        uses: dict[Buffer, list[str]] = {b: [] for b in self.kernel.buffers}
        for i, s in enumerate(self.kernel.stores):
            uses[s.buffer].append(digest("store", i))
            roots = {"expr": s.expr, "mask": s.mask} | {f"index{d}": e for d, e in enumerate(self.access(s.buffer, s.indices))}
            for role, root in roots.items():
                if root is not None:
                    self._down(root, self.nest(s), digest("store", i, role, s.combine), contexts, uses)
        for item in reversed(self.kernel.body):
            for v in reversed(values_of(item)):
                self._down(v.body, self.nest(v), digest("value", self.values[v.name], sorted(contexts.get(v.name, ()))), contexts, uses)
        self.buffers = {b: digest(self.buffers[b], sorted(uses[b])) for b in self.kernel.buffers}

    def _down(self, root: Node, nest: dict[Node, str], context: str, contexts: dict[str, list[str]], uses: dict[Buffer, list[str]]) -> None:
        self.of(root, nest)
        above: dict[Node, list[str]] = {root: [context]}
        for n in reversed(list(walk(root))):
            here = digest(sorted(above.get(n, ())))
            if n.op == "load":
                buffer = load_parts(n)[0]
                uses[buffer].append(digest(here, nest[n]))
            elif n.op == "ref":
                contexts.setdefault(n.arg, []).append(digest(here, [nest[s] for s in n.src]))
            siblings = sorted(nest[s] for s in n.src)
            for i, s in enumerate(n.src):
                place = "any" if commutes(n) or n.op == "sum" else i
                above.setdefault(s, []).append(digest(here, n.op, n.dtype.name, place, siblings))


# writer -----------------------------------------------------------------------------------------------------
Writing = Generator[Node, str, str]
"""Writes one node: asks for its operands one by one."""


class KernelWriter:
    """Writes a kernel from its stores, numbering what it meets; `text` is the result.

    One line a statement: `s…` symbols are declared where they are met, `v3[a0,a1] = add[a2] float32 n4`, the nodes of
    an expression one a line above it."""

    def __init__(self, kernel: Kernel, erase: bool = False) -> None:
        self.kernel = kernel
        self.colours = Colours(kernel, erase)
        self.erase = erase
        self.lines: list[str] = []
        self.axes: dict[Node, str] = {}
        self.families: dict[str, str] = {}
        self.values: dict[str, str] = {}
        self.buffers: dict[Buffer, str] = {}
        self.symbols: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self._folds = {v.name: item for item in kernel.body if isinstance(item, Fold) for v in item.block}
        self._written: set[str] = set()
        for s in kernel.stores:
            self._store(s)
        # what no store depends on still belongs to the kernel: it is a parameter, or names an option could mention
        for item in kernel.body:
            for v in values_of(item):
                self._value(v.name)
        for b in kernel.buffers:
            self._buffer(b)
        self.text = "\n".join(self.lines) + "\n"

    # names --------------------------------------------------------------------------------------------------------
    def _axis(self, a: Node) -> str:
        found = self.axes.get(a)
        if found is None:
            found = self.axes[a] = f"a{len(self.axes)}"
            family = self.families.setdefault(a.arg.family, f"f{len(self.families)}")
            self.lines.append(f"axis {found} {family} {self._extent(a.arg.extent)}")
        return found

    def _extent(self, extent: Extent) -> str:
        if self.erase:
            return "?"
        node = as_node(extent)
        return str(node.arg) if node.op == "const" else self._expr(node, {}, {})

    def _buffer(self, b: Buffer) -> str:
        found = self.buffers.get(b)
        if found is None:
            found = self.buffers[b] = f"b{len(self.buffers)}"
            size = f"rank {len(b.shape)}" if self.erase else f"{self._extent(elements(b.shape))} {b.range}"
            notes = "".join(f" {x}" for x in ("constant", "ascending", "regular") if getattr(b, x))
            notes += f" {b.pattern}" if b.pattern else ""
            self.lines.append(f"buffer {found} {b.role} {b.dtype.name} {size}{notes}")
        return found

    # statements ---------------------------------------------------------------------------------------------------
    def _store(self, s: Store) -> None:
        axes = ",".join(self._axis(a) for a in s.axes)
        nest, memo = self.colours.nest(s), dict[Node, str]()
        expr = self._expr(s.expr, nest, memo)
        at = ",".join(self._expr(i, nest, memo) for i in self.colours.access(s.buffer, s.indices))
        mask = "" if s.mask is None else f" if {self._expr(s.mask, nest, memo)}"
        self.lines.append(f"store {s.combine or 'set'} {self._buffer(s.buffer)}[{at}] over [{axes}] = {expr}{mask}")

    def _value(self, name: str) -> str:
        found = self.values.get(name)
        if found is None:
            fold = self._folds.get(name)
            if fold is not None and name not in self._written:
                return self._fold(fold, name)
            found = self.values[name] = f"v{len(self.values)}"
            self._define(self.kernel.values[name])
        return found

    def _fold(self, fold: Fold, wanted: str) -> str:
        self._written |= {v.name for v in fold.block}
        for c in fold.components:
            self._value(c)
        for v in fold.block:
            self._value(v.name)
        for i, c in enumerate(fold.components):
            self.arguments |= {f"{side}.{c}": f"{name}{i}" for side, name in (("a", "left"), ("b", "right"))}
        memo: dict[Node, str] = {}
        identity = ",".join(self._expr(e, {}, memo) for e in fold.monoid.identity)
        merge = ",".join(self._expr(e, {}, memo) for e in fold.monoid.merge)
        components = ",".join(self.values[c] for c in fold.components)
        flags = f"{'associative' if fold.monoid.associative else ''} {'commutative' if fold.monoid.commutative else ''}"
        self.lines.append(f"fold {self._axis(fold.axis)} ({components}) identity ({identity}) merge ({merge}) {flags}")
        return self.values[wanted]

    def _define(self, v: Value) -> None:
        axes = ",".join(self._axis(a) for a in v.axes)
        over = ",".join(self._axis(a) for a in v.reduce_axes)
        expr = self._expr(v.body, self.colours.nest(v), {})
        how = ""
        if isinstance(v.expr, Reduce):
            how = " ".join((f"{v.expr.combine}[{over}]", v.expr.dtype.name, *_order(v.expr), ""))
        elif isinstance(v.expr, Scan):
            how = f"scan {v.expr.combine}[{self._axis(v.expr.axis)}] {v.expr.dtype.name} "
        self.lines.append(f"value {self.values[v.name]}[{axes}] {v.dtype.name} = {how}{expr}")

    # expressions --------------------------------------------------------------------------------------------------
    def _expr(self, n: Node, nest: dict[Node, str], memo: dict[Node, str]) -> str:
        """The number of a node, or a leaf's text. Nodes begun wait for their operands on a list: expressions may be deep."""
        begun: list[tuple[Node, Writing]] = []
        asked = n
        while True:
            reply: str | None = memo.get(asked) or self._leaf(asked)
            if reply is None:
                memo[asked] = f"n{len(memo)}"  # reserves the number; operands get later ones
                begun.append((asked, self._node(asked, nest)))
            else:
                memo[asked] = reply
            while begun:
                node, writing = begun[-1]
                try:
                    asked = next(writing) if reply is None else writing.send(reply)
                    break
                except StopIteration as done:
                    reply = memo[node]
                    self.lines.append(f"  {reply} = {done.value}")
                    begun.pop()
            else:
                return memo[n]

    def _leaf(self, n: Node) -> str | None:
        if n.op == "const":
            return f"{n.dtype.name}:{self.colours.constant(n)}"
        if n.op == "axis":
            return self._axis(n)
        if n.op == "arg":
            return self.arguments.get(n.arg, str(n.arg))
        if n.op == "sym":
            name = self.symbols.get(n.arg.name)
            if name is None:
                name = self.symbols[n.arg.name] = f"s{len(self.symbols)}"
                self.lines.append(f"symbol {name} {n.arg.lo} {n.arg.hi}")
            return name
        return None

    def _node(self, n: Node, nest: dict[Node, str]) -> Writing:
        """Yields the operands in the order they are numbered in, is sent their texts, and returns the node's line."""
        if n.op == "load":
            buffer, indices, mask = load_parts(n)
            at = yield from _each(self.colours.access(buffer, indices))
            text = f"load {self._buffer(buffer)}[{','.join(at)}]"
            return text if mask is None else f"{text} if {(yield mask)}"
        if n.op == "ref":
            name = self._value(n.arg)
            at = yield from _each(n.src)
            return f"ref {name}[{','.join(at)}]"
        if n.op == "sum":
            coeffs, c = n.arg
            factor = {s: self.colours.factor(k) for s, k in zip(n.src, coeffs, strict=True)}
            terms = sorted(self.colours.order(n.src, nest), key=lambda s: (factor[s], self.colours.of(s, nest)))
            texts = yield from _each(terms)
            return f"sum {'+'.join(f'{factor[s]}*{text}' for s, text in zip(terms, texts))}+{'?' if self.erase and c else c}"
        src = self.colours.order(n.src, nest) if commutes(n) else n.src
        arg = f" {self.colours.divisor(n)}" if n.op in ("div", "mod") and n.dtype is index else ""
        texts = yield from _each(src)
        return f"{n.op} {n.dtype.name}{arg} {' '.join(texts)}"


def _each(nodes: Iterable[Node]) -> Generator[Node, str, list[str]]:
    texts = []
    for n in nodes:
        texts.append((yield n))
    return texts


# without epilogue -------------------------------------------------------------------------------------------
# A kernel with its epilogue left out: what `matmul` and `matmul + bias + gelu` have in common.


def without_epilogue(kernel: Kernel) -> Kernel:
    """`kernel` with every store that only post-processes one reduction (or fold, or scan) reduced to storing its
    result in the type it is accumulated in. Inputs nothing reads any more are dropped. Stores that read two results,
    or one at other places than their own axes, stay."""
    point = {v.name: v for v in kernel.body if isinstance(v, Value) and isinstance(v.expr, Node)}
    bare = {s: _result_store(kernel, s, point) for s in kernel.stores}
    types: dict[str, set[DType]] = {}
    for b in bare.values():
        types.setdefault(b.buffer.name, set()).add(b.buffer.dtype)
    # (stores to parts of one output stay where their results are of different types)
    stores = tuple(b if len(types[s.buffer.name]) == 1 else s for s, b in bare.items())
    if all(a is b for a, b in zip(stores, kernel.stores, strict=True)):
        return kernel
    used = _used(kernel, stores)
    body = tuple(i for i in kernel.body if isinstance(i, Fold) or i.name in used)
    roots = [e for s in stores for e in (s.expr, *s.indices, *(() if s.mask is None else (s.mask,)))]
    for item in body:
        roots += [v.body for v in item.block] if isinstance(item, Fold) else [item.body]
    read = {b for b, _, _ in loads(*roots)}
    buffers = tuple(b for b in kernel.buffers if b.role == "in" and b in read) + tuple(dict.fromkeys(s.buffer for s in stores))
    return Kernel(kernel.name, body, stores, buffers)


def _result_store(kernel: Kernel, s: Store, point: dict[str, Value]) -> Store:
    """The store of the reduction's own result, or `s`."""
    expr = s.expr
    while True:
        inline = {n: point[n.arg] for n in walk(expr) if n.op == "ref" and n.arg in point}
        if not inline:
            break
        expr = substitute(expr, {n: substitute(v.body, dict(zip(v.axes, n.src, strict=True))) for n, v in inline.items()})
    results = {n for n in walk(expr) if n.op == "ref"}
    if len(results) != 1 or s.combine is not None or s.mask is not None:
        return s
    (result,) = results
    if set(result.src) != set(s.axes) or len(result.src) != len(s.axes):
        return s
    source = kernel.values[result.arg]
    dtype: DType = source.dtype
    buffer = Buffer(s.buffer.name, dtype, s.buffer.shape, "out")
    if buffer == s.buffer and expr is result:
        return s
    return Store(buffer, s.indices, cast(ref(result.arg, result.src, dtype), dtype), s.axes)


def _used(kernel: Kernel, stores: tuple[Store, ...]) -> set[str]:
    """Values some store still depends on."""
    used = {n.arg for s in stores for n in walk(s.expr, *s.indices) if n.op == "ref"}
    for item in reversed(kernel.body):
        block = values_of(item)
        if isinstance(item, Fold) or item.name in used:
            used |= {n.arg for v in block for n in walk(v.body) if n.op == "ref"}
    return used


# canonical --------------------------------------------------------------------------------------------------
VERSION = 1
_DONE: weakref.WeakKeyDictionary[Kernel, Canonical] = weakref.WeakKeyDictionary()


class CanonicalNames(Protocol):
    """What names an option holds: `names` of its fields is "axis", "loop", "tensor", "any" (an axis, or else a tensor) or "grid"; `named_fields` are the fields whose
    values are loops or axes."""

    def names(self, fields: Mapping[str, object] | None) -> str: ...

    @property
    def named_fields(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Canonical:
    """`text` and its SHA-256 `hash` identify a kernel up to names, parameter order and the order of commutative operands.

    `names` maps display names (families, sites, values, buffers, symbols) to canonical ones: an axis family `f0`, an
    axis `a0`, a value `v0`, a buffer `b0`, a symbol `s0`. A family of a single axis goes by its axis. `identity` is a
    hash that also covers names and parameter order: what compiled code depends on."""

    text: str
    hash: str
    identity: str
    names: dict[str, str]
    tensors: dict[str, str]
    axes: dict[str, str]
    loops: dict[str, str]
    """`tensors`: buffers and values; `axes`: families and sites; `loops`: the same for loops (one named like its
    family is of the axis of that name)."""

    def to_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, CanonicalNames]) -> list[list[Any]]:
        """Options in JSON form (`[op, on]` or `[op, on, arg]`) with canonical names; `names` says of each option what
        it names (one that is not in it names an axis). OptError for a name the normalised kernel lacks."""
        return [self._opt(o, names.get(o[0]), self.tensors, self.axes, self.loops) for o in opts]

    def from_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, CanonicalNames]) -> list[list[Any]]:
        """The inverse: options with this kernel's names."""
        tensors = {c: n for n, c in self.tensors.items()}
        # sites come last in `loops`: a family's only axis goes by its site, which is what its loops are called
        axes = {c: n for n, c in self.axes.items()} | {c: n for n, c in self.loops.items()}
        return [self._opt(o, names.get(o[0]), tensors, axes, axes) for o in opts]

    @staticmethod
    def _opt(
        o: Sequence[Any], names: CanonicalNames | None, tensors: dict[str, str], axes: dict[str, str], loops: dict[str, str]
    ) -> list[Any]:
        op, on, *rest = o
        kind = names.names(rest[0] if rest and isinstance(rest[0], dict) else None) if names is not None else "axis"
        if kind == "tensor" or (kind == "any" and on.partition(".")[0] not in axes):
            new = _tensor(on, tensors)
            if new is None:
                raise OptError(f"{op}({on}): the kernel has no buffer or value {on!r} (it has {', '.join(tensors)})")
        else:
            new = _loop(op, on, loops if kind == "loop" else axes, loops, tensors)
        out: list[Any] = [op, new]
        for arg in rest:
            if isinstance(arg, dict):
                named = names.named_fields if names is not None else ()
                arg = {k: _loop(op, v, loops, loops, tensors) if k in named and v else v for k, v in arg.items()}
            out.append(arg)
        return out


def _tensor(name: str, known: dict[str, str]) -> str | None:
    """The name of a buffer or value, or of one that an option makes of it: `acc.f1` is made of `acc`."""
    base, dot, suffix = name.partition(".")
    found = known.get(name)
    return found if found is not None or not dot or base not in known else known[base] + dot + suffix


def _loop(op: str, name: str, whole: dict[str, str], loops: dict[str, str], tensors: dict[str, str]) -> str:
    """A name with its loop suffix kept: `n@max.t` is loop `.t` of `n@max`, and `y.0` runs over dimension 0 of `y`,
    which a scatter clears; where no buffer has the name, `n.2` is one of the sites of n that a fold makes. `grid` and `once` are no axes."""
    base, dot, suffix = name.partition(".")
    found = (tensors if suffix[:1].isdigit() and base in tensors else loops if dot else whole).get(base)
    if found is None:
        if name in ("grid", "once"):
            return name
        raise OptError(f"{op}: the normalised kernel has no axis {base!r} (it has {', '.join(whole)})")
    return found + dot + suffix


def canonical(kernel: Kernel) -> Canonical:
    """The canonical form of `kernel`; names are those of `normalise(kernel)`."""
    found = _DONE.get(kernel)
    if found is None:
        found = _DONE[kernel] = _canonical(normalise(kernel))
    return found


def _canonical(k: Kernel) -> Canonical:
    w = KernelWriter(k)
    tensors = {b.name: c for b, c in w.buffers.items()} | dict(w.values)
    sites = {a.arg.name: c for a, c in w.axes.items()}
    families = {f: w.axes[axes[0]] if len(axes) == 1 else w.families[f] for f, axes in k.families.items()}
    axes = sites | families
    text = f"kernel {VERSION}\n{w.text}{_decided(k, axes)}{chr(10) + 'fixed' if k.fixed else ''}"
    places = [(b.name, w.buffers[b], repr(b.shape)) for b in k.buffers]  # also which parameter is which: factors have no order in the text
    identity = _sha(repr((text, k.name, places, _hidden_facts(k), w.values, *_aliases(k))))
    return Canonical(text, _sha(text), identity, dict(w.symbols) | tensors | axes, tensors, axes, families | sites)


def _order(r: Reduce) -> tuple[str, ...]:
    """The order of a sum's additions, where there is one."""
    return () if r.order is None else (f"order {r.order.partials}/{r.order.chain}/{r.order.above}",)


def _decided(k: Kernel, axes: Mapping[str, str]) -> str:
    """The block sizes that schedules must keep to, for kernels that have such."""
    blocks = k.blocks
    if blocks is None:
        return ""
    order = sorted(range(len(blocks.axes)), key=lambda n: axes[blocks.axes[n]])
    sizes = sorted({tuple(s[n] for n in order) for s in blocks.sizes})
    return f"\nblocks {[axes[blocks.axes[n]] for n in order]} {sizes}"


def _aliases(k: Kernel) -> list[tuple[str, str]]:
    """Outputs that may lie in an input: the code is another, what it computes is not."""
    return [(b.name, b.alias) for b in k.outputs if b.alias]


def _hidden_facts(k: Kernel) -> list[object]:
    """Everything the numbering hides: names and the order of things."""
    nests: list[Value | Store] = [*k.values.values(), *k.stores]
    return [[a.arg.name for a in k.axes], [[a.arg.name for a in n.axes] for n in nests], [s.arg.name for s in k.symbols]]


def loose(kernel: Kernel) -> dict[str, str]:
    """Hashes for near misses. `extents`: the kernel with extents, sizes and most constants erased, so that another shape matches.
    `epilogue`: the kernel with what follows its one reduction (bias, activation, output type) erased."""
    k = normalise(kernel)
    return {"extents": _sha(KernelWriter(k, erase=True).text), "epilogue": _sha(KernelWriter(without_epilogue(k)).text)}


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
