"""The backend of `torch.compile`: Dynamo's graphs, made functional and taken apart into Core ATen, run on our kernels."""

from __future__ import annotations

import copy
import itertools
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.fx as fx
from torch._C._dynamo.guards import compute_overlapping_tensors
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._guards import TracingContext
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.multiprocessing.reductions import StorageWeakRef

from ...devices import get
from ...ir.errors import UsageError
from ...log import logger
from ...tensor.capture.jit_options import JitOptions
from .decompositions import decompositions, resizing
from .graph import CompiledGraph, GraphProgram, compile_graph, left_to_pytorch, runner, show_views
from .layout import has_symbols
from .sizes import GraphSizes, NoSymbol, SizeReader

OPTIONS = ("threads", "tune", "cache", "budget", "check", "numerics")


SHORT = "2.13."
"""Releases of PyTorch whose AOTAutograd `training_calls` was written beside; others call training graphs their way."""
GRAPHS: list[CompiledGraph] = []
"""All graphs of this process, in the order in which they were compiled."""
_names = itertools.count(1)


def backend(module: fx.GraphModule, example_inputs: Sequence[Any], **how: Any) -> Callable[..., Any]:
    """What `torch.compile(model, backend="tilewright", options={…})` calls with each graph. Options: `threads` (default: as many as
    PyTorch uses), and `tune`, `cache`, `budget`, `check`, `numerics` as for `tilewright.jit`. Raises UsageError for others."""
    settings: Mapping[str, Any] = how.get("options") or {}
    unknown = sorted({*settings} - {*OPTIONS})
    if unknown:
        raise UsageError(f"torch.compile(backend='tilewright', options={{{unknown[0]!r}: …}}): known are {', '.join(OPTIONS)}")
    options = JitOptions(**({"threads": threads()} | dict(settings)))
    get("cpu").check_threads(options.threads or 1)

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda gm, inputs: compiled_graph(gm, f"graph {next(_names)}", kind, options)

    compile_functional = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )
    with resizing(), _short_calls():
        made: Callable[..., Any] = compile_functional(module, example_inputs)
    context = TracingContext.try_get()
    changes = context is None or context.fw_metadata is None or any(i.mutates_data for i in context.fw_metadata.input_info)
    return unless_overlapping(module, made, example_inputs) if changes else made


def _short_calls() -> AbstractContextManager[None]:
    if not torch.__version__.startswith(SHORT):
        return nullcontext()
    from .training_calls import short_calls

    return short_calls()


def unless_overlapping(module: fx.GraphModule, made: Callable[..., Any], example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """What was made of a module that changes arguments. PyTorch runs the module itself where arguments overlap that lay apart when it was
    compiled: the functional graph reads all of them before it changes one. (PyTorch guards those that shared memory then.)"""
    seen = [StorageWeakRef(a.untyped_storage()) for a in example_inputs if isinstance(a, torch.Tensor)]
    known = {i for i, storage in enumerate(seen) if seen.count(storage) > 1}

    def run(*arguments: Any) -> Any:
        tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
        if len({a.untyped_storage().data_ptr() for a in tensors}) < len(tensors) - len(known):
            groups: dict[int, list[int]] = {}
            for i, a in enumerate(tensors):
                groups.setdefault(a.untyped_storage().data_ptr(), []).append(i)
            for group in groups.values():
                if {group[i] for i in compute_overlapping_tensors([tensors[i] for i in group])} - known:
                    return module(*arguments)
        return made(*arguments)

    return run


def threads() -> int:
    """As many as PyTorch uses, if the device has them."""
    wanted: int = torch.get_num_threads()
    return max(1, min(wanted, get("cpu").threads))


def compiled_graph(module: fx.GraphModule, name: str, kind: str, options: JitOptions) -> Callable[..., Any]:
    """A function that runs a graph. Graphs with symbolic sizes are compiled when they are called."""
    context = torch._guards.TracingContext.try_get()
    meta = None if context is None else context.fw_metadata
    if kind != "backward":
        show_views(module, len(module.graph.nodes) if meta is None else meta.num_forward_returns)
    module.graph.eliminate_dead_code()
    known = CompiledGraph(name, kind)
    GRAPHS.append(known)
    if any(has_symbols(n.meta.get("val")) for n in module.graph.nodes if n.op == "placeholder"):
        dynamic = DynamicGraph(module, known, options)
        return boxed(lambda arguments: dynamic(arguments))
    known.programs[""] = compile_graph(module, name, options)
    return boxed(runner(module, known.programs[""]))


def boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[..., Any]:
    """A function of a list, which PyTorch lets us empty."""
    vars(run)["_boxed_call"] = True
    return run


# symbolic sizes -------------------------------------------------------------------------------------------------------
# Graphs with symbolic sizes: compiled once for all values of their symbols, or, where that cannot be, for each set of sizes.


log = logger("torch")
MOST = 1024
"""Sets of values whose runners are kept."""
Run = Callable[[list[Any]], list[Any]]


class DynamicGraph:
    """A function of a graph's arguments, which it empties. `known.why` says why a graph is compiled for each set of sizes."""

    def __init__(self, module: fx.GraphModule, known: CompiledGraph, options: JitOptions) -> None:
        self.module, self.known, self.options = module, known, options
        self.inputs = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.programs: list[GraphProgram] = []
        self.runs: dict[tuple[int, ...], Run] = {}
        self.lock = threading.RLock()
        try:
            self.read = SizeReader(self.inputs).read
        except NoSymbol as e:
            self._give_up(e)
            self.read = _every_size

    def __call__(self, arguments: list[Any]) -> list[Any]:
        values = self.read(arguments)
        run = self.runs.get(values)
        if run is None:
            with self.lock:
                run = self.runs.get(values) or self._made(values, arguments)
                if len(self.runs) >= MOST:
                    self.runs.clear()
                self.runs[values] = run
        return run(arguments)

    def _made(self, values: tuple[int, ...], arguments: list[Any]) -> Run:
        if not self.known.why:
            try:
                return self._for_all(values)
            except NoSymbol as e:
                self._give_up(e)
            except UsageError as e:  # of these values only
                log.info("%s: compiled for sizes %s by themselves: %s", self.known.name, values, e)
        return self._for_these(values, arguments)

    def _give_up(self, e: NoSymbol) -> None:
        self.known.why = str(e)
        log.info("%s: its sizes are compiled one by one: %s", self.known.name, e)

    def _for_all(self, values: tuple[int, ...]) -> Run:
        """The program whose symbols have these values in their ranges, made where there is none. Raises NoSymbol; UsageError for values that
        it is no program of."""
        program = next((p for p in self.programs if p.sizes is not None and p.sizes.cover(values)), None)
        if program is None:
            before = [list(p.sizes.values.values()) for p in self.programs if p.sizes is not None]
            sizes = GraphSizes(SizeReader(self.inputs), self.inputs, values, [max(seen) for seen in zip(values, *before, strict=True)])
            program = compile_graph(self.module, self.known.name, self.options, sizes)
            self.programs.append(program)
            self.known.programs[str(sizes)] = program
        return runner(self.module, program, values)

    def _for_these(self, values: tuple[int, ...], arguments: list[Any]) -> Run:
        own = fx.GraphModule(self.module, copy.deepcopy(self.module.graph))
        try:
            propagate_sizes(own, arguments)
        except Exception as e:  # data decides a size, and what the graph promises of it is not enough to go on without data
            log.debug("%s: PyTorch computes it: %s", self.known.name, "".join(traceback.format_exception(e)))
            program = left_to_pytorch(own, f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0]}")
        else:
            program = compile_graph(own, self.known.name, self.options)
        self.known.programs[", ".join(map(str, values))] = program
        return runner(own, program)


def _every_size(arguments: Sequence[Any]) -> tuple[int, ...]:
    return tuple(n for a in arguments for n in (a.shape if isinstance(a, torch.Tensor) else (int(a),)))


def propagate_sizes(module: fx.GraphModule, arguments: Sequence[Any]) -> None:
    """Give each node of the graph the tensor that it makes of these arguments, without data. Sizes that data decides stay symbols."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    for node in module.graph.nodes:
        for key in ("val", "unbacked_bindings"):
            node.meta.pop(key, None)
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv(), static_shapes=True)
    with torch.no_grad():
        FakeTensorProp(module, mode).propagate(*arguments)
    for node, a in zip((n for n in module.graph.nodes if n.op == "placeholder"), arguments):
        node.meta.setdefault("val", a)
