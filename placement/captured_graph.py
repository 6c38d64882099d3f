"""The graph of a function of tensors, from the kernels that it becomes: an axis family is an axis, and how a kernel's loads and stores index an
array says which of its dimensions an axis splits."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.body import Fold, Reduce, Scan, values_of
from ..ir.buffer import load_parts
from ..ir.node import MASKED, Node, walk
from ..ir.rewriter import part_of
from .errors import PlanError
from .shard_graph import Dims, ShardArray, ShardGraph, ShardOp

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device
    from ..ir.kernel import Kernel
    from ..tensor.fusion.fusion_facts import GraphFacts


@dataclass(frozen=True)
class OpKernel:
    """What computes an operation: the `place`th output of a kernel. `inputs`: the read (array, dimensions) of each of its inputs."""

    kernel: Kernel
    place: int
    inputs: tuple[tuple[str, Dims], ...]

    def on(self, local: Mapping[str, int]) -> Kernel:
        """The kernel of a part: its axes have these extents."""
        found = KernelAxes.of(self.kernel)
        buffers = (*self.kernel.inputs, *self.kernel.outputs)
        shapes = {
            b.name: tuple(local[axis] if axis else extent for axis, extent in zip(dims, shape))
            for b, dims, shape in zip(buffers, (*found.reads, *found.writes), found.shapes)
        }
        return self.kernel if dict(local) == dict(found.axes) else part_of(self.kernel, local, shapes)


def captured_graph(facts: GraphFacts, kernels: Sequence[Kernel | None]) -> tuple[ShardGraph, dict[str, OpKernel]]:
    """The graph, and the kernel of each operation but for NumPy's own code. `kernels`: in the order of the facts; None for NumPy's own code, which runs whole on every device. Arguments are stored as parameters are.
    Raises PlanError where a size is not a number."""
    arrays, names = {}, dict[int, str]()
    for t in facts.tensors:
        if not all(isinstance(extent, int) for extent in t.shape):
            raise PlanError(f"{t.label} has a size that is no number: give all sizes with --shape")
        itemsize = t.nbytes // max(math.prod(t.shape), 1)
        name = names[t.number] = t.label if t.label not in arrays else f"{t.label} ({t.number})"
        arrays[name] = ShardArray(name, t.shape, itemsize, "parameter" if t.made_by is None else "made")
    ops, behind = [], dict[str, OpKernel]()
    for fact, kernel in zip(facts.kernels, kernels):
        found = KernelAxes.of(kernel) if kernel is not None else None
        inputs = [arrays[names[n]] for n in fact.inputs]
        owners = None if kernel is None else _owners(kernel, inputs)
        for place, n in enumerate(fact.outputs):
            name = f"{fact.number} {fact.name}" + (f" ({names[n]})" if place else "")
            flops = float(fact.flops) if place == 0 else 0.0
            if found is None or owners is None or place >= len(found.writes):
                every = tuple((x.name, ("",) * len(x.shape)) for x in inputs)
                ops.append(ShardOp(name, {}, every, (names[n], ("",) * len(arrays[names[n]].shape)), flops))
                continue
            whole, taken = set(found.whole), []
            ends = [*zip(owners, found.reads, found.shapes), (arrays[names[n]], found.writes[place], found.shapes[len(owners) + place])]
            for array, axes, seen in ends:
                mine, lost = _in_shape(axes, seen, array.shape)
                taken.append((array.name, mine))
                whole |= lost
            *reads, out = taken
            whole |= {*found.axes} - {*out[1]} - found.sums[place]  # those of another output only: no sum of parts makes this one
            assert kernel is not None
            behind[name] = OpKernel(kernel, place, tuple(reads))
            ops.append(ShardOp(name, dict(found.axes), tuple(dict.fromkeys(reads)), out, flops, frozenset(whole), rule="kernel"))
    return ShardGraph(arrays, tuple(ops)), behind


def _owners(kernel: Kernel, inputs: Sequence[ShardArray]) -> list[ShardArray] | None:
    """The array behind each input of a kernel, which may read one several times; None where that cannot be told."""
    if len(kernel.inputs) == len(inputs):
        return list(inputs)
    found = []
    for b in kernel.inputs:
        size = math.prod(int(n) for n in b.shape) * b.dtype.size
        fits = [x for x in inputs if x.nbytes == size]
        if len(fits) != 1:
            return None
        found.append(fits[0])
    return found


def _in_shape(axes: Dims, seen: tuple[int, ...], shape: tuple[int, ...]) -> tuple[Dims, set[str]]:
    """The axes by the dimensions of `shape`, where a kernel has the same array as `seen`; and axes of dimensions that are there no more."""
    if seen == shape:
        return axes, set()
    first = 0
    while first < min(len(seen), len(shape)) and seen[first] == shape[first]:
        first += 1
    last = 0
    while last < min(len(seen), len(shape)) - first and seen[-1 - last] == shape[-1 - last]:
        last += 1
    end = len(seen) - last
    return (*axes[:first], *("",) * (len(shape) - first - last), *axes[end:]), set(axes[first:end]) - {""}


@dataclass(frozen=True)
class KernelAxes:
    """What is known of a kernel's axes: their extents, the axis of each dimension of its inputs and outputs, and the axes that cannot be split: those that are
    part of a longer index or of a value, and those that something but a plain sum goes over."""

    axes: Mapping[str, int]
    reads: tuple[Dims, ...]
    writes: tuple[Dims, ...]
    whole: frozenset[str]
    shapes: tuple[tuple[int, ...], ...]
    """Of the inputs, then the outputs."""
    sums: tuple[frozenset[str], ...]
    """Of each output the axes of the sum that it is."""

    @staticmethod
    def of(kernel: Kernel) -> KernelAxes:
        """Raises PlanError where an extent is not a number."""
        axes = {}
        for family, sites in kernel.families.items():
            extent = sites[0].arg.extent
            if not isinstance(extent, int):
                raise PlanError(f"axis {family} of {kernel.name} has a size that is no number")
            axes[family] = extent
        indexed: dict[str, list[set[str]]] = {b.name: [set() for _ in b.shape] for b in kernel.buffers}
        whole = set(_in_values(kernel))
        for name, indices in _accesses(kernel):
            for d, index in enumerate(indices):
                if index.op == "axis":
                    if name in indexed:
                        indexed[name][d].add(index.arg.family)
                else:
                    whole |= {n.arg.family for n in walk(index) if n.op == "axis"}
                    if name in indexed:
                        indexed[name][d].add("")
        for found in indexed.values():
            for names in found:
                if len(names) > 1:
                    whole |= names - {""}
        sums = _sums(kernel)
        whole |= _folded(kernel, frozenset().union(*sums.values()))
        dims: dict[str, Dims] = {name: tuple(next(iter(n)) if len(n) == 1 else "" for n in each) for name, each in indexed.items()}
        for b in kernel.buffers:  # an axis that walks a part of a dimension only
            for d, axis in enumerate(dims[b.name]):
                if axis and axes[axis] != b.shape[d]:
                    whole.add(axis)
            dims[b.name] = tuple("" if axis and axes[axis] != b.shape[d] else axis for d, axis in enumerate(dims[b.name]))
        inputs = tuple(dims[b.name] for b in kernel.inputs)
        shapes = tuple(tuple(int(n) for n in b.shape) for b in (*kernel.inputs, *kernel.outputs))
        made = tuple(sums.get(b.name, frozenset()) for b in kernel.outputs)
        return KernelAxes(axes, inputs, tuple(dims[b.name] for b in kernel.outputs), frozenset(whole), shapes, made)


def _accesses(kernel: Kernel) -> Iterator[tuple[str, tuple[Node, ...]]]:
    """(buffer or value, indices) of all loads, references and stores."""
    for n in walk(*kernel.expressions()):
        if n.op == "load":
            buffer, indices, _ = load_parts(n)
            yield buffer.name, indices
        elif n.op == "ref":
            yield "", n.src
        elif n.op == MASKED:
            yield "", n.src[:-1]
    for s in kernel.stores:
        yield s.buffer.name, s.indices


def _in_values(kernel: Kernel) -> Iterator[str]:
    """Axes whose number is a part of a value or of a condition: a device would have to add where its piece begins."""
    for n in walk(*kernel.expressions()):
        at = len(load_parts(n)[1]) if n.op == "load" else len(n.src) if n.op == "ref" else len(n.src) - 1 if n.op == MASKED else 0
        yield from (x.arg.family for x in n.src[at:] if x.op == "axis")
    for s in kernel.stores:
        if s.combine is not None or s.mask is not None:
            yield from (n.arg.family for n in s.axes)


def _sums(kernel: Kernel) -> dict[str, frozenset[str]]:
    """By output, the axes of the one sum that all its stores write as it is, and with which nothing else is done."""
    whole = [s.expr for s in kernel.stores if s.expr.op == "ref"]
    used = {n.arg for e in kernel.expressions() if e not in whole for n in walk(e) if n.op == "ref"}
    added = {
        v.name: frozenset(a.arg.family for a in v.reduce_axes)
        for item in kernel.body
        for v in values_of(item)
        if isinstance(v.expr, Reduce) and v.expr.combine == "add" and v.name not in used
    }
    found: dict[str, frozenset[str]] = {}
    for s in kernel.stores:
        mine = added.get(s.expr.arg, frozenset()) if s.expr.op == "ref" and s.combine is None else frozenset[str]()
        found[s.buffer.name] = mine & found.get(s.buffer.name, mine)
    return found


def _folded(kernel: Kernel, plain: frozenset[str]) -> set[str]:
    """Axes that are reduced or scanned, but for a `plain` one that only one sum goes over."""
    values = [v for item in kernel.body for v in values_of(item)]
    often = Counter(family for v in values for family in {a.arg.family for a in v.reduce_axes})
    found = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    found |= {v.expr.axis.arg.family for v in values if isinstance(v.expr, Scan)}
    outside = found | {a.arg.family for axes in (*(v.axes for v in values), *(s.axes for s in kernel.stores)) for a in axes}
    return found | {f for f, n in often.items() if n > 1 or f not in plain or f in outside}


class CapturedPrices:
    """Seconds of captured kernels of local shapes, by the schedule cache or the model. Only an operation's first output is counted."""

    def __init__(self, kernels: Mapping[str, OpKernel], device: Device, threads: int, cache: Cache) -> None:
        self.kernels, self._device, self._threads, self._cache = kernels, device, threads, cache
        self._known: dict[tuple[Any, ...], float] = {}
        self.sources: Counter[str] = Counter()

    def __call__(self, op: ShardOp, local: Mapping[str, int]) -> float:
        found = self.kernels.get(op.name)
        if found is None or found.place:
            return 0.0
        key = (op.name, *sorted(local.items()))
        if key not in self._known:
            self._known[key] = self._seconds(found.on(local))
        return self._known[key]

    def _seconds(self, kernel: Kernel) -> float:
        from ..heuristics import estimate
        from ..ir.normal_form import normalise
        from ..opts import apply
        from ..plan import resolve

        found = resolve(kernel, self._device, self._threads, self._cache, start="quick")
        if found.row is not None and found.row.t_med is not None and found.origin in ("exact", "stale"):
            self.sources["exact"] += 1
            return found.row.t_med
        self.sources["model"] += 1
        return estimate(apply(normalise(kernel), found.opts, self._device.target), self._threads, self._device.limits())
