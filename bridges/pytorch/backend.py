"""The backend of `torch.compile`: Dynamo's graphs, made functional and taken apart into Core ATen, run on our kernels."""

from __future__ import annotations

import copy
import itertools
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.fx as fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from ...devices import get
from ...ir.errors import UsageError
from ...log import logger
from ...tensor.capture.jit_options import JitOptions
from .decompositions import decompositions
from .graph import GraphProgram, compile_graph, left_to_pytorch, runner
from .layout import has_symbols

log = logger("torch")
OPTIONS = ("threads", "tune", "cache", "budget", "check")


@dataclass
class CompiledGraph:
    """A graph of PyTorch's and what it became, by the sizes that it was called with."""

    name: str
    kind: str
    programs: dict[tuple[int, ...], GraphProgram] = field(default_factory=dict)


GRAPHS: list[CompiledGraph] = []
"""All graphs of this process, in the order in which they were compiled."""
_names = itertools.count(1)


def backend(module: fx.GraphModule, example_inputs: Sequence[Any], **how: Any) -> Callable[..., Any]:
    """What `torch.compile(model, backend="tilewright", options={…})` calls with each graph. Options: `threads` (default: as many as
    PyTorch uses), and `tune`, `cache`, `budget`, `check` as for `tilewright.jit`. Raises UsageError for others."""
    settings: Mapping[str, Any] = how.get("options") or {}
    unknown = sorted({*settings} - {*OPTIONS})
    if unknown:
        raise UsageError(f"torch.compile(backend='tilewright', options={{{unknown[0]!r}: …}}): known are {', '.join(OPTIONS)}")
    options = JitOptions(**({"threads": threads()} | dict(settings)))
    get("cpu").check_threads(options.threads or 1)

    def compiler(kind: str) -> Callable[..., Any]:
        return lambda gm, inputs: compiled_graph(gm, f"graph {next(_names)}", kind, options)

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,
    )(module, example_inputs)
    return made


def threads() -> int:
    """As many as PyTorch uses, if the device has them."""
    wanted: int = torch.get_num_threads()
    return max(1, min(wanted, get("cpu").threads))


def compiled_graph(module: fx.GraphModule, name: str, kind: str, options: JitOptions) -> Callable[..., Any]:
    """A function that runs a graph. Graphs with symbolic sizes are compiled when they are called, once for each set of sizes."""
    module.graph.eliminate_dead_code()
    known = CompiledGraph(name, kind)
    GRAPHS.append(known)
    places = [n for n in module.graph.nodes if n.op == "placeholder"]
    sizes = [i for i, n in enumerate(places) if isinstance(n.meta.get("val"), torch.SymInt)]
    symbolic = any(has_symbols(n.meta.get("val")) for n in places)
    runs: dict[tuple[int, ...], Callable[[list[Any]], list[Any]]] = {}
    if not symbolic:
        known.programs[()] = compile_graph(module, name, options)
        run = runner(module, known.programs[()])
        return boxed(run)

    def sized(arguments: list[Any]) -> list[Any]:
        key = tuple(int(arguments[i]) for i in sizes)
        key += tuple(d for a in arguments if isinstance(a, torch.Tensor) for d in a.shape) if not sizes else ()
        if key not in runs:
            own = fx.GraphModule(module, copy.deepcopy(module.graph))
            try:
                propagate_sizes(own, arguments)
            except Exception as e:  # data decides a size, and what the graph promises of it is not enough to go on without data
                log.debug("%s: PyTorch computes it: %s", name, "".join(traceback.format_exception(e)))
                known.programs[key] = left_to_pytorch(own, f"{type(e).__name__}: {str(e).strip().partition(chr(10))[0]}")
            else:
                known.programs[key] = compile_graph(own, name, options)
            runs[key] = runner(own, known.programs[key])
        return runs[key](arguments)

    return boxed(sized)


def boxed(run: Callable[[list[Any]], list[Any]]) -> Callable[..., Any]:
    """A function of a list, which PyTorch lets us empty."""
    vars(run)["_boxed_call"] = True
    return run


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
