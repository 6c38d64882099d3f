"""The backend of `torch.compile`: Dynamo's graphs, made functional and taken apart into Core ATen, run on our kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.fx as fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from ...devices import get
from ...ir.errors import UsageError
from ...tensor.capture.jit_options import JitOptions
from .decompositions import decompositions
from .dynamic import DynamicGraph
from .graph import CompiledGraph, compile_graph, runner
from .layout import has_symbols

OPTIONS = ("threads", "tune", "cache", "budget", "check")


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
    """A function that runs a graph. Graphs with symbolic sizes are compiled when they are called."""
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
