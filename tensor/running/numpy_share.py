"""Which graphs NumPy computes: small ones, and others until a kernel would have been worth its compilation.

A kernel takes as long to compile as NumPy takes for tens of millions of elements. So a graph of at most `MOST_WORK` is NumPy's until
graphs of its structure have been `ENOUGH_WORK` together: never more than twice the time that the better choice takes, known beforehand or
not (A. Karlin and others, "Competitive snoopy caching", 1988). Kernels are compiled before they are needed, while NumPy answers. Work is
counted in elements and not in seconds, so that a program gives the same numbers whenever it runs."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from math import prod

from ...devices import get
from ...devices.once import process_lock
from ..graph.nodes import TensorNode, walk
from .buffers import ACCOUNT
from .observers import NANS

SMALL_GRAPH = 1 << 13
"""Work at which a kernel begins to be worth its compilation, however often it runs."""
SMALL_ARRAY = 1 << 21
"""Elements up to which NumPy's operations, one after the other, take less time than graphs of consumers' calls, whose parts are small."""
MOST_WORK = 1 << 22
"""Work of a graph that is a kernel's from its second time on."""
ENOUGH_WORK = 1 << 25
"""Work of all graphs of a structure after which kernels compute it, and of a graph that is a kernel's at once."""
FEW_RUNS = 1 << 10
"""Runs of a small graph after which kernels compute it where a driver compiles for as long as NumPy takes for thousands: operands are copied
there and back, which takes as long as a kernel's call."""
PRODUCT_WORK = 16
"""Products of a contraction that NumPy's BLAS computes in the time of one element of anything else."""

_done: OrderedDict[Hashable, int] = OrderedDict()
_MOST_KEYS = 4096
_lock = process_lock()


SMALL = os.environ.encodekey("TILEWRIGHT_SMALL")
ENVIRONMENT = vars(os.environ)["_data"]
"""(Looked at for every small operation: `os.environ.get` takes ten times as long.)"""


def kernels_only() -> bool:
    """Whether kernels compute everything: TILEWRIGHT_SMALL=0 says so, and whoever looks for NaNs wants whole graphs."""
    return NANS.on or (SMALL in ENVIRONMENT and os.environ["TILEWRIGHT_SMALL"] == "0")


def contraction(n: TensorNode) -> TensorNode | None:
    """The product that a node is the sum of, where NumPy has better ways than to make the product."""
    if n.op != "reduce" or n.arg[0] != "add":
        return None
    (x,) = n.src
    both = x.op == "elementwise" and x.arg == "mul" and x.data is None and not x.dtype.narrow
    return x if both and x.size > sum(s.size // _repeats(s) for s in x.src) else None


def _repeats(n: TensorNode) -> int:
    """How often a broadcast node repeats each element."""
    if n.data is not None or n.op != "view" or n.arg.mask is not None or n.arg.plain is None:
        return 1
    return max(prod(size for d, size in enumerate(n.shape) if d not in n.arg.plain), 1)


def work_of(outs: Sequence[TensorNode], most: int) -> int:
    """Elements that NumPy would compute, or some number above `most`."""
    total = 0
    products: set[int] = set()
    nodes = []
    for n in walk(outs):
        if n.data is not None:
            continue
        if n.op in ("loop", "kernel"):
            return most + 1
        nodes.append(n)
        product = contraction(n)
        if product is not None:
            products.add(id(product))
    for n in nodes:
        repeated = n.op == "view" and n.arg.mask is None and n.arg.plain is not None
        total += n.size // (PRODUCT_WORK if id(n) in products else _repeats(n) if repeated else 1)
        if total > most:
            break
    return total


def is_numpys(outs: Sequence[TensorNode], device: str, key: Callable[[], Hashable], prepare: Callable[[], None]) -> bool:
    """Whether NumPy computes a graph, whose structure is `key`: on the device `cpu`, and a small one where a driver compiles late. `prepare`
    compiles kernels for it meanwhile; it is called once. Captured functions always run kernels, and TILEWRIGHT_SMALL=0 turns this off."""
    if kernels_only() or (device != "cpu" and not get(device).first_launch_s):
        return False
    work = work_of(outs, ENOUGH_WORK if device == "cpu" else SMALL_GRAPH)
    if device != "cpu":
        if work > SMALL_GRAPH:
            return False
        work = ENOUGH_WORK // FEW_RUNS
    elif work <= SMALL_GRAPH:
        return True
    if work > ENOUGH_WORK or (work > MOST_WORK and ACCOUNT.cap is not None):
        return False
    return not worth_a_kernel((device, key()), ENOUGH_WORK if work > MOST_WORK else work, prepare)


def worth_a_kernel(structure: Hashable, work: int, prepare: Callable[[], None]) -> bool:
    """Whether what has a structure was computed so often that its kernels are worth their compilation; `work` is that of this time."""
    with _lock:
        before = _done.pop(structure, 0)
        after = _done[structure] = before if before >= ENOUGH_WORK else before + work
        if len(_done) > _MOST_KEYS:
            _done.popitem(last=False)
    if before < ENOUGH_WORK // 2 <= after:
        prepare()
    return before >= ENOUGH_WORK
