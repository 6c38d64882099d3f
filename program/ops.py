"""The operations of Programs as one table: operands, result, attribute, effect, and what passes may do with each.

Everything that treats some operations alike asks this table (`OPS`, or one of the sets made from it below) and keeps no list of its
own. What a language calls an operation is in that language's renderer, in a table with the same names; `RENDERED` and `GROUPED` say
which names such a table must have. `For` and `If` are statements, not operations: control flow is not in here.

An operation's *type variable* is the element type that all operands marked `same` share; its *lanes* are those of the operation, that
is of its vectors: element-wise operands have exactly so many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

Lanes = Literal["all", "one", "many", "any", "one or all"]
"""How many lanes an operand has: as many as the operation; one; two or more; any number of its own; one, or as many as the operation."""
ResultType = Literal["same", "bool", "memory", "free"]
"""The result's element type: that of the operands marked `same`; bool; the memory's; or what the instruction says (casts, constants)."""
PAGE = 4096
"""Bytes of a page, by whose places processors first compare addresses, and after which the sets of a first cache come round."""
ResultLanes = Literal["all", "one", "free", "attribute"]
"""The result's lanes: the operation's; one; what the instruction says; or as many as the attribute lists."""
Effect = Literal["pure", "read", "write", "hint", "sync", "async", "warpgroup"]
"""What running an operation does: computes a result and nothing else; reads memory; writes memory; asks the processor for something
that changes no result; makes the threads of a group meet; has to do with a copy that goes on beside the thread (`copy_async`); or starts
and awaits what Hopper's units do (`program.hopper`)."""
Attribute = Literal[
    "none", "number", "positive", "lane", "lanes", "distance", "row", "tensor row", "alignment", "window", "memory", "copy", "groups",
    "mbarrier", "box load", "box store", "product",
]  # fmt: skip
"""What `Instr.attr` is: None; a number, or a tuple of one a lane; a positive int; a lane of the first operand; a tuple of lanes of all
operands put in a row; a number of threads; the name of a row of `targets.instructions` or of `targets.tensor_rows`; (parameter, bytes);
(parameter, parameter, first byte, bytes) of a page; a Mem; an AsyncCopy; a number of groups of asynchronous work, 0 or more; or one of the classes of `program.hopper`."""
Needs = Literal["", "groups", "tensor_cores", "async_copies", "warpgroups"]
"""The capability of a language (`targets.languages`) without which it does not have the operation."""

NUMBERS, INTEGERS, FLOATS, BOOLS, ANY = "fiu", "iu", "f", "b", "fiub"
"""Kinds of element types, as in `DType.kind`."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand. `kinds`: the kinds of element types it may have; `same`: its type is the operation's type variable; `index`: it is
    an int64 that counts elements; `halves`: it may be a float of 16 or 8 bits, which can be moved and converted but not computed with;
    `stored`: its type is the memory's; `optional`: it may be left out (masks are); `repeated`: there may be several of it (the last)."""

    name: str
    kinds: str = ANY
    lanes: Lanes = "all"
    same: bool = True
    index: bool = False
    halves: bool = False
    stored: bool = False
    optional: bool = False
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Op:
    """One operation. `dtype` and `lanes` say how the result's follow (`dtype` is None where there is no result). `commutes`: the first
    two operands may change places without a change of the result (of two NaNs or zeros, either may come out). `hoists`: an equal one
    may stand for it, and it may move to the outermost block where its operands exist ('invariant': only where its memory is not
    written in the phase). `unit`: what works on it when it has vectors ('none': it costs nothing there). `sign` is its infix form
    in a Program's text. `twin`: only in Programs lowered with `expand=False`, which are never rendered. `meets`: threads come together
    for it, all of the group or all of each warp. `needs`: what a language must have for it."""

    name: str
    operands: tuple[Operand, ...]
    dtype: ResultType | None = "same"
    lanes: ResultLanes = "all"
    attribute: Attribute = "none"
    effect: Effect = "pure"
    commutes: bool = False
    hoists: Literal["always", "invariant", "never"] = "always"
    unit: Literal["none", "vector", "divider"] = "vector"
    sign: str | None = None
    twin: bool = False
    meets: Literal["none", "warp", "group"] = "none"
    needs: Needs = ""


def _elementwise(name: str, kinds: str, count: int, **more: Any) -> Op:
    """An operation on `count` operands of one type, element by element."""
    return Op(name, tuple(Operand(letter, kinds) for letter in "abc"[:count]), **more)


def _compare(name: str, kinds: str, sign: str) -> Op:
    return _elementwise(name, kinds, 2, dtype="bool", commutes=name in ("eq", "ne"), sign=sign)


_INDEX = Operand("index", INTEGERS, "one", same=False, index=True)
_EACH = Operand("index", INTEGERS, "all", same=False, index=True)
_MASK = Operand("mask", BOOLS, "all", same=False, optional=True)
_STORED = Operand("value", ANY, "all", same=False, halves=True, stored=True)


def _moved(name: str, lanes: Lanes = "all") -> Operand:
    """An operand that is moved and not computed with, so that it may have any type."""
    return Operand(name, ANY, lanes, halves=True)


def _async(name: str, operands: tuple[Operand, ...], **more: Any) -> Op:
    """An operation of copies that go on beside the thread; it has no result."""
    return Op(name, operands, None, "one", effect="async", hoists="never", needs="async_copies", **more)


def _tensor(name: str, operands: tuple[Operand, ...], **more: Any) -> Op:
    """An operation of a whole warp on fragments."""
    return Op(name, operands, hoists="never", meets="warp", needs="tensor_cores", **more)


def _hopper(name: str, operands: tuple[Operand, ...] = (), attribute: Attribute = "none", **more: Any) -> Op:
    """An operation of Hopper's asynchronous units."""
    return Op(
        name,
        operands,
        **{"dtype": None, "lanes": "one", "attribute": attribute, "effect": "warpgroup", "hoists": "never", "needs": "warpgroups", **more},
    )


_AT = Operand("at", INTEGERS, "one", same=False, index=True)
_SLOT = Operand("slot", INTEGERS, "one", same=False, index=True)
_COORDINATE = Operand("coordinate", INTEGERS, "one", same=False, index=True, repeated=True)

_TABLE = (
    Op("const", (), "free", "free", "number", unit="none"),
    # arithmetic: integers wrap
    _elementwise("add", NUMBERS, 2, commutes=True, sign="+"),
    _elementwise("sub", NUMBERS, 2, sign="-"),
    _elementwise("mul", NUMBERS, 2, commutes=True, sign="*"),
    _elementwise("div", FLOATS, 2, unit="divider", sign="/"),
    _elementwise("max", NUMBERS, 2, commutes=True),
    _elementwise("min", NUMBERS, 2, commutes=True),
    _elementwise("neg", NUMBERS, 1),
    _elementwise("abs", NUMBERS, 1),
    _elementwise("sqrt", FLOATS, 1, unit="divider"),
    _elementwise("floor", FLOATS, 1),
    _elementwise("round", FLOATS, 1),
    _elementwise("fma", NUMBERS, 3, commutes=True),
    _elementwise("scale2", FLOATS, 2),
    _elementwise("exp2", FLOATS, 1),
    _elementwise("root_guess", FLOATS, 1),
    _elementwise("idiv", INTEGERS, 1, attribute="positive", sign="//"),
    _elementwise("imod", INTEGERS, 1, attribute="positive", sign="%"),
    _elementwise("quot", INTEGERS, 2, unit="divider"),
    # comparisons and logic
    _compare("lt", NUMBERS, "<"),
    _compare("le", NUMBERS, "<="),
    _compare("eq", ANY, "=="),
    _compare("ne", ANY, "!="),
    _elementwise("and", INTEGERS + BOOLS, 2, commutes=True, sign="&"),
    _elementwise("or", INTEGERS + BOOLS, 2, commutes=True, sign="|"),
    _elementwise("xor", INTEGERS + BOOLS, 2, commutes=True),
    _elementwise("not", INTEGERS + BOOLS, 1),
    _elementwise("popcount", INTEGERS, 1),
    _elementwise("clz", INTEGERS, 1),
    _elementwise("shl", INTEGERS, 2),
    _elementwise("shr", INTEGERS, 2),
    # choice and conversion
    Op("select", (Operand("cond", BOOLS, "one or all", same=False), _moved("a"), _moved("b"))),
    Op("cast", (_moved("a"),), "free"),
    Op("bitcast", (Operand("a", NUMBERS, halves=True),), "free"),
    # functions
    _elementwise("exp", FLOATS, 1, twin=True),
    _elementwise("log", FLOATS, 1, twin=True),
    _elementwise("tanh", FLOATS, 1, twin=True),
    _elementwise("erf", FLOATS, 1, twin=True),
    _elementwise("expm1", FLOATS, 1, twin=True),
    _elementwise("log1p", FLOATS, 1, twin=True),
    _elementwise("sin", FLOATS, 1, twin=True),
    _elementwise("cos", FLOATS, 1, twin=True),
    _elementwise("atan", FLOATS, 1, twin=True),
    _elementwise("trunc", FLOATS, 1, twin=True),
    # lanes
    Op("splat", (_moved("a", "one"),), lanes="free", unit="none"),
    Op("extract", (_moved("a", "many"),), lanes="one", attribute="lane"),
    Op("every", (Operand("a", BOOLS, "many"),), lanes="one"),
    Op("insert", (_moved("a"), _moved("value", "one")), attribute="lane"),
    Op("shuffle", (_moved("a", "any"), _moved("b", "any")), lanes="attribute", attribute="lanes"),
    Op(
        "dot",
        (Operand("acc"), Operand("a", same=False, lanes="any", halves=True), Operand("b", same=False, lanes="any", halves=True)),
        attribute="row",
    ),
    Op("aligned", (), "bool", "one", "alignment", unit="none"),
    Op("apart", (), "bool", "one", "window", unit="none"),
    # memory
    Op("load", (_INDEX, _MASK), "memory", "free", "memory", "read", hoists="invariant"),
    Op("gather", (_EACH, _MASK), "memory", "all", "memory", "read", hoists="invariant"),
    Op("store", (_INDEX, _STORED, _MASK), None, "all", "memory", "write", hoists="never"),
    Op("scatter", (_EACH, _STORED, _MASK), None, "all", "memory", "write", hoists="never"),
    Op("prefetch", (_INDEX,), None, "one", "memory", "hint", hoists="never"),
    # threads of a group
    Op("barrier", (), None, "one", "none", "sync", hoists="never", meets="group", needs="groups"),
    Op("shfl_xor", (_moved("a", "one"),), lanes="one", attribute="distance", effect="sync", hoists="never", meets="warp", needs="groups"),
    # copies into shared memory that go on beside the thread
    _async("copy_async", (replace(_INDEX, name="to"), replace(_INDEX, name="from"), replace(_MASK, lanes="one")), attribute="copy"),
    _async("commit", ()),
    _async("wait", (), attribute="groups"),
    # tensor cores
    _tensor(
        "mma",
        (_moved("acc"), Operand("a", same=False, lanes="any", halves=True), Operand("b", same=False, lanes="any", halves=True)),
        attribute="tensor row",
        effect="sync",
    ),
    _tensor("ldmatrix", (_INDEX,), dtype="memory", lanes="free", attribute="memory", effect="read"),
    _tensor("ldmatrix_t", (_INDEX,), dtype="memory", lanes="free", attribute="memory", effect="read"),
    # Hopper's asynchronous units
    _hopper("mbar_init", attribute="mbarrier"),
    _hopper("mbar_arrive", (_SLOT, Operand("rank", INTEGERS, "one", same=False, index=True, optional=True)), "mbarrier"),
    _hopper("mbar_expect", (_SLOT, Operand("bytes", INTEGERS, "one", same=False, index=True)), "mbarrier"),
    _hopper("mbar_wait", (_SLOT, Operand("parity", INTEGERS, "one", same=False, index=True)), "mbarrier"),
    _hopper("box_load", (_SLOT, _AT, _COORDINATE), "box load"),
    _hopper("box_store", (_AT, _COORDINATE), "box store"),
    _hopper("box_commit"),
    _hopper("box_wait", attribute="groups"),
    _hopper("proxy_fence"),
    _hopper(
        "wgmma",
        (
            Operand("acc", halves=True),
            Operand("a", same=False, lanes="any", halves=True),
            _AT,
            Operand("add", BOOLS, "one", same=False, optional=True),
        ),
        "product",
        dtype="same",
        lanes="all",
    ),
    _hopper("wgmma_fence"),
    _hopper("wgmma_commit"),
    _hopper("wgmma_wait", attribute="groups"),
    _hopper("wgmma_result", (Operand("acc", halves=True),), dtype="same", lanes="all"),
    _hopper("meet", attribute="positive"),
    _hopper("cluster_barrier"),
)

OPS: dict[str, Op] = {op.name: op for op in _TABLE}
"""Every operation, by name."""


def _where(holds: Callable[[Op], bool]) -> frozenset[str]:
    return frozenset(op.name for op in _TABLE if holds(op))


READS = _where(lambda op: op.effect == "read")
"""What gives the content of memory: load, gather, ldmatrix."""
WRITES = _where(lambda op: op.effect == "write")
"""What changes memory: store, scatter."""
ACCESSES = READS | WRITES
"""What touches memory; `Instr.mem` says where."""
SYNCS = _where(lambda op: op.meets != "none")
"""Where threads of a group, or of a warp, meet."""
MATRIX_LOADS = READS & SYNCS
"""What reads memory by the threads of a warp together: the index of a thread says where a row of 16 bytes begins, and any of them may
get what it holds."""
HINTS = _where(lambda op: op.effect == "hint")
"""What changes no result and may be left out."""
ASYNCS = _where(lambda op: op.effect == "async")
"""What begins, groups and awaits copies that go on beside the thread."""
HOPPER = _where(lambda op: op.effect == "warpgroup")
"""What Hopper does beside the threads, and what starts and awaits it."""
FIXED = SYNCS | HINTS | ASYNCS | HOPPER
"""What stays where it was written: reordering passes take it for a wall."""
CONSECUTIVE = _where(lambda op: op.name in ACCESSES - SYNCS and any(o.index and o.lanes == "one" for o in op.operands))
"""A thread's accesses to neighbouring elements from one index on, whose alignment may be claimed."""
COMPARISONS = _where(lambda op: op.dtype == "bool" and bool(op.operands))
"""What gives bools from two operands of one type."""
FREE = _where(lambda op: op.unit == "none")
"""What no arithmetic unit works on."""
DIVIDES = _where(lambda op: op.unit == "divider")
"""What occupies the divider."""
TWIN_ONLY = _where(lambda op: op.twin)
"""What must be expanded before a Program is rendered."""
SIGNS: dict[str, str] = {op.name: op.sign for op in _TABLE if op.sign is not None}
"""Infix forms in a Program's text."""
GROUPED = _where(lambda op: op.needs == "groups")
"""What a language must say if it has groups of threads, and refuses if it has none."""
COPYING = _where(lambda op: op.needs == "async_copies")
"""The same of languages with asynchronous copies."""
TENSOR = _where(lambda op: op.needs == "tensor_cores")
"""The same of languages with tensor cores."""
RENDERED = _where(lambda op: not op.needs)
"""What every language's table must have; what it cannot express, it refuses there by name."""
