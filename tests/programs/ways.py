"""How the library computes a program: eager or captured, by kernels that are compiled, by NumPy node by node, or by kernels that
the reference evaluates, which compiles nothing and still sees the partition, the fusion and the pulled kernels."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import tilewright as tw
from tilewright import nn, xp
from tilewright.ir import index as ix
from tilewright.ir import sym
from tilewright.ir.evaluation import evaluate
from tilewright.tensor.capture import jit as decorator
from tilewright.tensor.capture.call_arguments import Arguments
from tilewright.tensor.capture.capture import CapturedGraph
from tilewright.tensor.fusion.call_list import CallList, KernelCall, call_list
from tilewright.tensor.graph.nodes import TensorNode
from tilewright.tensor.graph.symbolic_sizes import concrete
from tilewright.tensor.running import numpy_evaluation as small
from tilewright.tensor.running.realise import detached
from tilewright.tensor.trees import unflatten

from . import noisy
from .leaves import values
from .program import Leaf, Program


def put(x: Any, key: Any, value: Any) -> Any:
    """`x[key] = value` on a copy."""
    found = xp.asarray(x, copy=True)
    found[key] = value
    return found


NAMES: dict[str, Any] = {"np": np, "xp": xp, "nn": nn, "tw": tw, "put": put}


def tensor(leaf: Leaf) -> Any:
    """A leaf as a tensor in memory of its own."""
    if leaf.what.startswith("below"):
        return tw.Tensor(np.random.default_rng(leaf.seed).integers(0, max(1, int(leaf.what.split()[1])), leaf.shape))
    found = values(leaf.what, leaf.seed, leaf.shape, leaf.dtype)
    return tw.Tensor(np.asarray(found, noisy.NUMPY.get(leaf.dtype)), dtype=leaf.dtype)


def compiled(program: Program, numbers: bool = False) -> Callable[..., tuple[Any, ...]]:
    """The program's text for tensors as a function; `numbers` as in `Program.function`."""
    names = {**NAMES}
    exec(program.function("tw", numbers=numbers), names)
    found: Callable[..., tuple[Any, ...]] = names["f"]
    return found


# by the reference --------------------------------------------------------------------------------------------------
def stored(x: Any, n: TensorNode) -> Any:
    """What memory holds of a result of the reference. Results of 32 and 64 bits that nobody rounds stay as exact as the reference
    computes them: else what is stored would differ from what another kernel computes again, which it does not on a processor."""
    wide = n.dtype.is_float and n.dtype.size >= 4 and n.arg != "rounded"
    with np.errstate(all="ignore"):
        return np.asarray(x, np.float64) if wide else np.asarray(x).astype(n.dtype.np)


RunsKernel = Callable[[Any, dict[str, Any], dict[str, int]], dict[str, Any]]
"""(kernel, arrays of its inputs by name, symbols) → arrays of its outputs by name."""


def run_list(made: CallList, given: Sequence[Any], sizes: dict[Any, int] | None = None, runs: RunsKernel = evaluate) -> list[Any]:
    """The outs of a call list whose leaves are `given` (arrays), each kernel run by `runs`: the reference in float64, where elements
    that no store writes are NaN."""
    names = {s.arg.name: v for s, v in (sizes or {}).items()}
    places: list[Any] = [*given] + [None] * (len(made.nodes) - made.leaves)
    for call in made.calls:
        out = [made.nodes[p] for p in call.outputs]
        shapes = [concrete(n.shape, sizes or {}) for n in out]
        if not isinstance(call, KernelCall):
            places[call.outputs[0]] = stored(call.call.function(*[places[p] for p in call.inputs]), out[0])
            continue
        if all(0 in s for s in shapes):
            found = [np.empty(s) for s in shapes]
        else:
            inputs = {}
            for b, p in zip(call.kernel.inputs, call.inputs, strict=True):
                shape = [d if isinstance(d, int) else ix.evaluate(d, sizes or {}) for d in b.shape]
                inputs[b.name] = places[p].reshape(shape)
            done = runs(call.kernel, inputs, names)
            found = [done[b.name] for b in call.kernel.outputs]
        for p, n, s, x in zip(call.outputs, out, shapes, found, strict=True):
            places[p] = stored(x, n).reshape(s)
    return [places[p].astype(made.nodes[p].dtype.np, copy=False) for p in made.outs]


def evaluated(outs: Sequence[TensorNode], runs: RunsKernel = evaluate) -> list[Any]:
    """Lazy nodes by the reference, or kernels run otherwise. What has memory already is read."""
    wanted = [n for n in outs if n.data is None]
    if not wanted:
        return [n.data.array for n in outs]
    bare, leaves = detached(wanted)
    made = call_list(bare)
    given = [leaves[n.arg.number] for n in made.nodes[: made.leaves]]
    found = iter(run_list(made, [n.data.array if n.data is not None else small.evaluate([n])[0] for n in given], None, runs))
    return [n.data.array if n.data is not None else next(found) for n in outs]


class ReferenceProgram:
    """What `jit` compiles a captured graph to, here by the reference: it takes the place of `CompiledFunction`, so that all else that a
    captured function does is the library's own. It updates no tensors."""

    bindings: Any = None

    def __init__(self, graph: CapturedGraph) -> None:
        bare, leaves = detached(graph.outs)
        self.graph, self.device = graph, graph.device
        self.made = call_list(bare) if bare else CallList([], 0, [], ())
        # the list numbers its leaves as it meets them, by the numbers of their slots
        sources = [graph.leaves[id(n)] for n in leaves]
        self.sources = [sources[n.arg.number] for n in self.made.nodes[: self.made.leaves]]

    def differentiable(self, tensors: object) -> bool:
        """Whether it is called as it is written: these programs take no gradients of captured functions from outside."""
        return False

    def sizes(self, values: Mapping[Any, int]) -> Any:
        for holds in self.graph.checks:
            holds(values)
        return dict(values)

    def call_quick(self, found: Any) -> Any:
        _, sizes, _, given, _ = found
        symbols = [sym(*s) for s in self.graph.symbols]
        return self._called([tw.Tensor(x).node.data for x in given], (), self.sizes(dict(zip(symbols, sizes, strict=True))))

    def call(self, arguments: Arguments) -> Any:
        return self._called(arguments.buffers, arguments.numbers, self.sizes(arguments.values))

    def _called(self, buffers: Sequence[Any], numbers: Sequence[Any], sizes: Any) -> Any:
        graph = self.graph

        def there(s: Any) -> tuple[Any, str]:
            if s.kind == "number":
                slot = graph.slots[len(graph.slots) - len(graph.parameters) + s.place]
                return np.asarray(numbers[graph.parameters[s.place]], slot.dtype.np), slot.dtype.name
            b = buffers[s.place] if s.kind == "argument" else graph.closures[s.place].buffer
            return b.array, b.dtype.name

        found = run_list(self.made, [there(s)[0] for s in self.sources], sizes)
        leaves = []
        for s in graph.results:
            if s.kind in ("constant", "value"):
                leaves.append(s.value if s.kind == "constant" else numbers[s.place])
                continue
            array, kind = (found[s.place], graph.outs[s.place].dtype.name) if s.kind == "out" else there(s)
            leaves.append(tw.Tensor(np.array(array), dtype=kind))
        return unflatten(graph.structure, leaves)


@contextmanager
def computing(engine: str) -> Iterator[None]:
    """Captured functions are computed by the reference, or small arrays by kernels too."""
    if engine == "native":
        with Kernels():
            yield
        return
    before = decorator.compiled
    decorator.compiled = lambda graph, name, options, donated: ReferenceProgram(graph)
    try:
        yield
    finally:
        decorator.compiled = before


# natively ----------------------------------------------------------------------------------------------------------
class Kernels:
    """Small arrays are kernels too, inside."""

    def __enter__(self) -> None:
        self.before = os.environ.get("TILEWRIGHT_SMALL")
        os.environ["TILEWRIGHT_SMALL"] = "0"

    def __exit__(self, *_: Any) -> None:
        if self.before is None:
            del os.environ["TILEWRIGHT_SMALL"]
        else:
            os.environ["TILEWRIGHT_SMALL"] = self.before


def native(outs: Sequence[Any]) -> list[Any]:
    """Lazy tensors by compiled kernels, in one run."""
    with Kernels():
        tw.compute(*outs)
        return [t.numpy() for t in outs]


def by_qemu(kernel: Any, inputs: dict[str, Any], symbols: dict[str, int]) -> dict[str, Any]:
    """A kernel with the start schedule of an AArch64 processor, run by qemu."""
    import aarch64
    from tilewright.heuristics import starts
    from tilewright.lower import lower
    from tilewright.opts import apply

    program = lower(apply(kernel, starts(kernel, aarch64.NEON, 2)[0], aarch64.NEON))
    program.name = "kernel"  # a linker's name
    arrays = {
        b.name: np.ascontiguousarray(inputs[b.name], b.dtype.np) if b.name in inputs else np.full(b.shape, 7, b.dtype.np)
        for b in kernel.buffers
    }
    aarch64.run(program, list(arrays.values()), [symbols[s.arg.name] for s in program.symbols])
    return {b.name: arrays[b.name] for b in kernel.outputs}
