"""Why a node is stored, and what it costs to compute it again, against storing and loading it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise, takewhile

from ...ir.dtypes import bool_
from ..graph.index_maps import IndexMap, Indices, ravel
from ..graph.nodes import TensorNode

_FLOPS = {
    "exp": 12,
    "log": 12,
    "tanh": 16,
    "erf": 16,
    "sin": 16,
    "cos": 16,
    "log1p": 14,
    "expm1": 14,
    "pow": 30,
    "rounded": 4,
    "tan": 32,
    "asin": 24,
    "acos": 24,
    "atan": 18,
    "atan2": 30,
    "sinh": 40,
    "cosh": 30,
    "asinh": 30,
    "acosh": 30,
    "atanh": 24,
    "div": 4,
    "sqrt": 4,
}
"""Operations of one element, in multiply-adds of a vector unit; 1 for what is not named."""

FLOPS_PER_BYTE = 8.0
"""What a core computes while memory delivers a byte: of the order of what server cores, laptops and GPUs do alike
(30 to 60 GFLOP/s of simple vector work a core against 4 to 8 GB/s). Only its order matters: a wrong factor of two moves
a boundary between nearly equal choices."""

MASK = 3
"""Operations of a padded read: bounds are compared, and what is outside is chosen."""

GATHER = 16
"""Operations of a read by index: the place is loaded, kept inside, and the element read alone."""

CHEAP = 2
"""Operations that a contraction's operand may hold: they are hidden behind the loads."""


@dataclass(frozen=True)
class Behind:
    """What computing a node takes: operations per element, the arrays it reads, and the reductions among them."""

    flops: float
    arrays: tuple[TensorNode, ...]
    reduces: bool
    nbytes: int
    """Of the arrays; of one that is read by index no more than is read."""


def work(n: TensorNode) -> float:
    """Operations of an element of a node, without what it reads."""
    if n.op == "view":
        return 0.0 if n.arg.mask is None else MASK
    return float(_FLOPS.get(n.arg, 1)) if n.op == "elementwise" else GATHER if n.op == "gather" else 0.0


def behind(node: TensorNode, ends: Callable[[TensorNode], bool]) -> Behind:
    """`node` down to where `ends` says that memory (or a value that is made anyway) is."""
    flops, arrays, reduces = 0.0, {}, False
    picked: dict[int, int] = {}
    seen: set[int] = set()
    stack = [node]
    while stack:
        n = stack.pop()
        if id(n) in seen:
            continue
        seen.add(id(n))
        if n is not node and ends(n):
            arrays[id(n)] = n
            continue
        if n.op in ("reduce", "scan"):
            reduces = True
            if n is not node:
                arrays[id(n)] = n
                continue
        flops += work(n)
        if n.op == "gather":
            picked[id(n.src[0])] = picked.get(id(n.src[0]), 0) + n.size
        stack.extend(n.src)
    nbytes = sum(min(a.size, picked.get(id(a), a.size)) * a.dtype.size for a in arrays.values())
    return Behind(flops, tuple(arrays.values()), reduces, nbytes)


BETWEEN = frozenset({"lt", "le", "and", "cast"})
"""What a condition between places is made of."""


def between_places(node: TensorNode, ends: Callable[[TensorNode], bool]) -> bool:
    """Whether a condition says from where to where each row is read: places are compared with integers of smaller arrays. Loops end where it
    does not hold, if it is computed where it is read."""
    if node.dtype is not bool_ or node.op != "elementwise" or not _joined(node, ends):
        return False
    b = behind(node, ends)
    return not b.reduces and b.nbytes < node.size


def _joined(n: TensorNode, ends: Callable[[TensorNode], bool]) -> bool:
    if n.op != "elementwise" or ends(n):
        return n.dtype.is_int
    return n.arg in BETWEEN and all(_joined(s, ends) for s in n.src)


LAUNCH = 30_000
"""What one more kernel costs, as bytes of memory traffic (some microseconds)."""


STEP, NEAR, CACHED = 1_000, 8.0, 256 << 10
"""The same in a step of a loop on the host, which makes its calls by itself; how many bytes of arrays that stay in the caches from step to
step cost as much as one of memory; and the bytes of such an array."""

HOST: ContextVar[bool] = ContextVar("host", default=True)
"""Whether kernels run on the host."""
IN_STEPS: ContextVar[bool] = ContextVar("in_steps", default=False)
"""Whether kernels are those of a loop's steps."""


def near(node: TensorNode) -> bool:
    """Whether an array would stay in the caches: it is a step's, and small."""
    return HOST.get() and IN_STEPS.get() and node.size * node.dtype.size <= CACHED


def cheaper_to_store(node: TensorNode, iterations: list[int], ends: Callable[[TensorNode], bool]) -> bool:
    """Whether storing `node` once and loading it costs less than computing it in each of some kernels, which evaluate it
    so many times."""
    b = behind(node, ends)
    size, nbytes, kernels = node.size, node.size * node.dtype.size, len(iterations)
    if b.reduces and max(iterations) > size:
        return True
    launch, share = (STEP, NEAR) if near(node) else (LAUNCH, 1.0)
    again = kernels * b.nbytes / share + sum(iterations) * max(0.0, b.flops - CHEAP) / FLOPS_PER_BYTE
    once = launch + (b.nbytes + nbytes * (1 + kernels)) / share + size * b.flops / FLOPS_PER_BYTE
    return once < again


RUN = 16
"""Elements at equal distances that a vector is loaded from, or stored to, at once."""

ALONE = 8
"""Operations of a read from a shorter run: elements are loaded alone, or by a mask."""


def run_of(by: IndexMap, at: Iterable[Indices]) -> int:
    """Of elements of a map's result in their order, how many lie at equal distances in the row-major source, from the first one on. (Sizes
    are numbers, and nothing is masked.)"""
    places = [ravel(by.source, by(index)[0]).arg for index in at]
    steps = [b - a for a, b in pairwise(places)]
    return 1 + sum(1 for _ in takewhile(lambda step: step == steps[0], steps))


def cheaper_in_order(node: TensorNode, reads: int) -> bool:
    """Whether a contraction that reads the elements of a node so many times from short runs had better find them in order."""
    return LAUNCH + 3 * node.size * node.dtype.size < reads * ALONE / FLOPS_PER_BYTE


class Rule(StrEnum):
    """Why a node is stored."""

    output = "an output of the graph"
    head = "a contraction, with the pointwise work behind it"
    scatter = "a scatter starts from its own memory"
    scan = "a scan, with the pointwise work behind it"
    host = "computed by NumPy"
    host_input = "read by NumPy"
    loop = "computed by a loop"
    loop_input = "read by the steps of a loop"
    own = "computed by a kernel of yours"
    own_input = "read by a kernel of yours"
    check = "says whether indices lie inside"
    operand = "a contraction reads each element many times: computing it again costs more than storing it"
    moved = "a contraction reads it many times from places in short runs: elements in order are loaded as vectors"
    readers = "several kernels read it: computing it again costs more than a store and loads"
    statistic = "a reduction that several kernels read"
    rows = "a reduction that its reader does not have at shared leading axes"
    head_reader = "a reduction read by a contraction's kernel"
    computed = "read at places that are computed or padded"
    joined = "a join of many arrays, for each of which readers would have code"
    limit = "the kernel would have too many parameters or operations"
    reshaped = "read in another shape, with a symbolic size by which no index is divided"
    steady = "compared with an extreme of itself: others would compute it with other bits"
    fold = "a chain of reductions over one axis, in tiles"
