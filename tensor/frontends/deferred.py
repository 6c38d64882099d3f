"""Element-wise functions of long arrays, computed when somebody reads their results: one pass over memory for a chain of them, and for the
reduction behind it.

NumPy's functions read and write memory, one after the other; a kernel of all of them reads once. But a graph and its call take longer to
make than NumPy's functions of some hundred thousand elements. So such a result is a `Deferred`, a function and its arguments and no more.
When it is read, the chain behind it is spelled: its functions, and shapes and types of its arrays. A chain spelled so often that a kernel
is worth its compilation (`numpy_evaluation.py`) is a kernel's, which another thread compiles meanwhile; before, NumPy computes it step by step."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextvars import Context
from math import prod
from sys import getrefcount
from types import NoneType
from typing import Any

import numpy as np

from ...devices.once import process_lock
from ...ir.dtypes import DType
from ...ir.dtypes import dtype as type_named
from ...ir.errors import TilewrightError
from ...log import logger
from ...plan.array_arguments import address
from ..fusion.call_list import KernelCall, leaves_of
from ..graph.captured_numbers import exact_number
from ..graph.nodes import Slot, TensorNode, interned_in, make
from ..ops import elementwise as E
from ..ops import linalg as L
from ..ops import movement as M
from ..ops import reduction as R
from ..running.compiled_kernels import bound
from ..running.current_capture import outside
from ..running.numpy_evaluation import SMALL_ARRAY, worth_a_kernel
from ..running.observers import WATCH, timed
from ..running.pools import COUNTED, POOLED_FROM, is_room, release
from ..running.realise import listed, prepare
from .quick_arrays import room

log = logger("tensor")

Array = np.ndarray[Any, Any]
Rule = Callable[..., Any]

FROM = 1 << 16
"""Elements of a result from which it is deferred."""
AGAIN = 8
"""Work for an element, in additions, that is done again for the next reader rather than stored for it."""
MOST = 48
"""Work of a chain: what is longer is computed in parts."""
MOST_PROGRAMS = 1024
ONLY_HERE = 4
"""What CPython counts for a result that only one chain reads: its place among arguments, two names of it, and the count's own."""
END, RESHAPE = -1, -2
"""In the place of a weight: of what may stand at the end of a chain, and is computed at once; of what changes the shape only."""
KINDS = "fd?"
"""NumPy's letters of the types of chains."""


def _weights(weight: int, names: str) -> dict[Callable[..., Any], int]:
    return {getattr(E, n): weight for n in names.split()}


WEIGHTS: dict[Callable[..., Any], int] = {
    **_weights(1, "add subtract multiply maximum minimum negative absolute square sign equal not_equal less less_equal greater greater_equal"),
    **_weights(1, "logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_invert isnan isinf isfinite"),
    **_weights(1, "where clip astype"), **_weights(3, "divide sqrt reciprocal power"), M.reshape_to: RESHAPE,
    **dict.fromkeys((R.sum, R.prod, R.max, R.min, R.any, R.all, R.mean, R.var, R.std, L.vector_norm), END),
    **_weights(10, "exp exp2 expm1 log log1p log2 log10 tanh sinh cosh asin acos atan"),
}  # fmt: skip
"""The functions of chains, with their work for an element. (Sines of large numbers are NumPy's only.)"""


class _Quiet(threading.local):
    """`run`: calls a function in a context in which NumPy warns of nothing (`np.errstate` takes longer than most small operations)."""

    def __init__(self) -> None:
        context = Context()
        context.run(np.seterr, all="ignore")
        self.run = context.run


quiet = _Quiet()
together = _Quiet().run
"""The same in one context for all threads: a RuntimeError where one of them is in it. (To ask which thread this is takes a fifth of a short sum.)"""


def _quietly(rule: Rule, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """A rule's answer without warnings, in the middle of another one's too: a finaliser may read what was deferred."""
    try:
        return quiet.run(rule, *args, **options)
    except RuntimeError:
        with np.errstate(all="ignore"):
            return rule(*args, **options)


class Deferred:
    """A function of arrays, numbers and other results like this, with the rule that computes it with NumPy. `array`: its values, once
    they are known; `weight`: the work of the whole chain for an element; `reads`: how often it was a part of what was computed; `last`:
    its tensor is gone after this read; `reshaped`: it is its argument in another shape."""

    __slots__ = ("args", "array", "dtype", "function", "last", "options", "reads", "reshaped", "rule", "shape", "weight")

    def __init__(
        self,
        function: Callable[..., Any],
        rule: Rule,
        args: Sequence[Any],
        options: dict[str, Any],
        shape: tuple[int, ...],
        kind: Any,
        weight: int,
    ) -> None:
        self.function, self.rule, self.args, self.options, self.shape, self.dtype = function, rule, args, options, shape, kind
        self.array: Array | None = None
        self.weight, self.reads, self.last, self.reshaped = weight, 0, False, False

    def __del__(self) -> None:
        array, self.array = self.array, None
        if array is not None and array.nbytes >= POOLED_FROM:
            release(array, array.nbytes)
        self.let_go()

    def let_go(self) -> None:
        """Need the arguments no more. Of an array whose tensor has gone meanwhile nobody else gives the memory back."""
        rest, self.args = list(self.args), ()
        while rest:
            a = rest.pop()
            if type(a) is np.ndarray and a.nbytes >= POOLED_FROM and is_room(a):
                release(a, a.nbytes)

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    def value(self) -> Array:
        """Its values, computed now if they were not yet."""
        if self.array is None:
            found = np.asarray(_computed(self))
            self.array = found
            self.let_go()  # (after `array`: other threads look there first)
        array = self.array
        assert array is not None
        return array

    def element(self, at: tuple[int, ...]) -> Any:
        """The value at one place, without all others."""
        args, array = self.args, self.array
        if array is not None:
            return array[at]
        if self.reshaped:
            return args[0].element(np.unravel_index(np.ravel_multi_index(at, self.shape), args[0].shape))
        parts = []
        for a in args:
            if isinstance(a, (Deferred, np.ndarray)):
                inner = tuple(0 if n == 1 else i for i, n in zip(at[len(at) - len(a.shape) :], a.shape, strict=True))
                a = np.asarray(a.element(inner) if isinstance(a, Deferred) else a[inner])
            parts.append(a)
        return _quietly(self.rule, parts, self.options)


# what is deferred -------------------------------------------------------------------------------------------------
def answer(function: Callable[..., Any], rule: Rule, weight: int, args: Sequence[Any], options: dict[str, Any]) -> Any:
    """A function of arguments among which are long arrays: a `Deferred`, or of a reduction what it is. None where it is not for this."""
    role, weight = weight, max(weight, 0)
    longest = 0
    for a in args:
        if type(a) is Deferred:
            weight += a.weight if a.array is None else 0
            longest = max(longest, a.size)
        elif type(a) is np.ndarray:
            flags = a.flags
            if a.dtype.char not in KINDS or not flags.aligned or not (flags.c_contiguous or (role > 0 and _order(a) is not None)):
                return None
            longest = max(longest, a.size)
        elif type(a) not in _NUMBERS and not (type(a) is tuple and role == RESHAPE):
            return None
    if longest < FROM or weight > MOST or any(type(v) not in _OPTIONS for v in options.values()):
        return None
    if role == END:
        return _computed(Deferred(function, rule, args, options, (), None, weight))
    if role == RESHAPE:
        if type(args[0]) is not Deferred or options:
            return None
        to = np.broadcast_to(np.int8(0), args[0].shape).reshape(*args[1:]).shape
        made = Deferred(function, rule, args, options, to, args[0].dtype, weight)
        made.reshaped = True
        return made
    shape, *others = [a.shape for a in args if type(a) not in _NUMBERS]
    if any(other != shape for other in others):
        shape = np.broadcast_shapes(shape, *others)
    key = (rule, *[(type(a), a) if type(a) in _NUMBERS else a.dtype for a in args], *options.items())
    kind = _kinds.get(key, 0)
    if kind == 0:
        if len(_kinds) >= 4096:
            _kinds.clear()
        ones = [a if type(a) in _NUMBERS else np.ones(1, a.dtype) for a in args]
        found = quiet.run(rule, *ones, **options)
        kind = _kinds[key] = None if found is None or found.dtype.char not in KINDS else found.dtype
    if kind is None or prod(shape) > SMALL_ARRAY:
        return None
    return Deferred(function, rule, args, options, shape, kind, weight)


def _order(x: Array) -> list[int] | None:
    """The order of dimensions in which the elements of a long array lie in memory one behind the other; None where there is none."""
    order = sorted(range(x.ndim), key=lambda d: -x.strides[d])
    return order if x.size >= FROM and x.transpose(order).flags.c_contiguous else None


_NUMBERS = frozenset({int, float, bool, NoneType, DType})
_OPTIONS = _NUMBERS | {tuple}
_kinds: dict[Any, Any] = {}


# computed ---------------------------------------------------------------------------------------------------------
class _Program:
    """What computes chains that are spelled alike: `run`, once kernels do; `out`: their graph, of the slots `slots`; `never`: no kernels
    compute it."""

    def __init__(self) -> None:
        self.never = False
        self.run: Callable[[Sequence[Array]], Array] | None = None
        self.out: TensorNode | None = None
        self.slots: list[TensorNode] = []

    def prepare(self, steps: Sequence[Any], leaves: Sequence[Array]) -> None:
        """Make the graph, and have its kernels compiled."""
        with outside(), interned_in({}):
            self.slots = [make("slot", (), Slot.new(), a.shape, type_named(a.dtype.name)) for a in leaves]
            nodes: list[TensorNode] = []
            for function, places, options in steps:
                args = [p[1] if type(p) is tuple else nodes[p] if p >= 0 else self.slots[-1 - p] for p in places]
                nodes.append(function(*args, **dict(options)))
        self.out = nodes[-1]
        prepare([self.out], "cpu")

    def link(self, steps: Sequence[Any], leaves: Sequence[Array]) -> None:
        """Take the kernels, as soon as they are compiled."""
        if self.out is None:  # (one call was work enough, or this was forgotten)
            self.prepare(steps, leaves)
        assert self.out is not None
        made = listed([self.out])
        if not all(isinstance(c, KernelCall) for c in made.calls):
            self.never = True
            return
        found = leaves_of([self.out])
        read = [self.slots.index(found[n.arg.number]) for n in made.nodes[: made.leaves]]
        calls = []
        for c in made.calls:
            assert isinstance(c, KernelCall)
            rooms = [(p, made.nodes[p].shape, made.nodes[p].dtype.np, made.nodes[p].size) for p in c.outputs]
            calls.append((bound(c.kernel, "cpu"), (*c.inputs, *c.outputs), rooms, c.kernel))
        empty: list[Any] = [None] * (len(made.nodes) - made.leaves)
        (last,) = made.outs

        def run(leaves: Sequence[Array]) -> Array:
            arrays = [*[leaves[i] for i in read], *empty]
            for call, places, rooms, kernel in calls:
                for p, shape, kind, count in rooms:
                    out = room(shape, kind, count)
                    arrays[p] = np.empty(shape, kind) if out is None else out
                at = [address(arrays[p]) for p in places]
                if WATCH.observer is None:
                    call(*at)
                else:
                    with timed("kernel", kernel.name, "cpu", kernel):
                        call(*at)
            result: Array = arrays[last]
            return result

        self.run = run


_programs: OrderedDict[Any, _Program] = OrderedDict()
_lock = process_lock()


def _computed(root: Deferred) -> Any:
    """The values of a chain: a kernel's, or NumPy's."""
    steps, leaves = _spelled(root)
    key = tuple(steps), tuple([(a.shape, a.dtype) for a in leaves])
    program = _programs.get(key)
    if program is None:
        with _lock:
            program = _programs.setdefault(key, _Program())
            while len(_programs) > MOST_PROGRAMS:
                _programs.popitem(last=False)
    if program.run is None and not program.never:
        work = len(steps) * max(a.size for a in leaves)
        try:
            if worth_a_kernel(("chain", key), work, lambda: program.prepare(steps, leaves)):
                program.link(steps, leaves)
        except TilewrightError as e:
            log.debug("a chain stays NumPy's: %s", e)
            program.never = True
    if program.run is not None:
        return program.run(leaves)
    leaves = []  # (who has an array is counted)
    if WATCH.observer is None:
        return _by_numpy(root)
    with timed("numpy", "small operation", "cpu"):
        return _by_numpy(root)


def _by_numpy(x: Any) -> Any:
    """The values of a chain, step by step; each result keeps its own."""
    if type(x) is not Deferred:
        return x
    args, array = x.args, x.array
    if array is None:
        found = _quietly(x.rule, [_by_numpy(a) for a in args], x.options)
        if x.dtype is None:  # (a reduction, which nobody else has)
            return found
        array = x.array = np.asarray(found)
        args = ()
        x.let_go()
    return array


def _spelled(root: Deferred) -> tuple[list[Any], list[Array]]:
    """The functions of a chain, each with the places of its arguments (below 0: arrays), and its arrays. What costs much and somebody
    else has is stored before, so that the next one does not compute it again."""
    steps: list[Any] = []
    leaves: list[Array] = []
    _place(root, steps, leaves, {}, root)
    return steps, leaves


def _place(x: Any, steps: list[Any], leaves: list[Array], places: dict[int, int], root: Deferred) -> Any:
    """Where an argument is, once it is among the steps or the arrays; of a number, its key."""
    if type(x) not in (Deferred, np.ndarray):
        return exact_number(x) if isinstance(x, (int, float)) else (type(x), x)
    one = id(x)
    place = places.get(one)
    if place is not None:
        return place
    array = x
    if type(x) is Deferred:
        args, array = x.args, x.array
        if array is None and x is not root:
            x.reads += 1
            if x.weight * x.reads > AGAIN and not (x.last or (COUNTED and getrefcount(x) <= ONLY_HERE)):
                array = x.value()
        if array is None:
            found = tuple([_place(a, steps, leaves, places, root) for a in args])
            steps.append((x.function, found, tuple(x.options.items())))
            places[one] = len(steps) - 1
            return places[one]
        place = places.get(id(array))
    if place is None:
        order = None if array.flags.c_contiguous else _order(array)
        leaves.append(np.asarray(array, order="C") if order is None else array.transpose(order))
        place = -len(leaves)
        if order is not None:
            steps.append((M.permute_dims, (place,), (("axes", tuple(sorted(range(len(order)), key=order.__getitem__))),)))
            place = len(steps) - 1
        places[id(array)] = place
    places[one] = place
    return place
