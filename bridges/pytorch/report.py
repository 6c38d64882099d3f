"""What became of the graphs that PyTorch compiled in this process: kernels, schedules, and what PyTorch computes itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ...tensor.capture.compiled_function import CompiledFunction
from .backend import GRAPHS
from .graph import CompiledGraph, Fallback, GraphProgram


def functions(program: GraphProgram) -> Iterator[CompiledFunction]:
    """The compiled functions of a graph."""
    return (step.function.program for step in program.steps if step.function is not None)


def fallbacks() -> list[Fallback]:
    """Every node that PyTorch computes itself, with the reason and the line of the user's program."""
    return [f for graph in GRAPHS for program in graph.programs.values() for f in program.fallbacks]


def reset() -> None:
    """Forget what was compiled, so that `report` begins anew. What runs goes on running."""
    GRAPHS.clear()


def report() -> str:
    """A text about every graph since the process began, or since `reset`: its kernels with their schedules and where those come from, and
    the nodes that PyTorch computes itself, with the reason."""
    if not GRAPHS:
        return 'no graph was compiled; torch.compile(model, backend="tilewright") compiles at its first call'
    return "\n\n".join(text for graph in GRAPHS for text in _graph(graph))


def _graph(graph: CompiledGraph) -> Iterator[str]:
    if graph.why:
        yield f"{graph.name} ({graph.kind}): its sizes are compiled one by one: {graph.why}"
    if not graph.programs:
        yield f"{graph.name} ({graph.kind}): not called yet"
    for sizes, program in graph.programs.items():
        found = list(functions(program))
        kernels = sum(len(f.calls) for f in found)
        own = len(program.fallbacks)
        where = f" for sizes {sizes}" if sizes else ""
        lines = [f"{graph.name} ({graph.kind}){where}: {program.nodes} nodes, {kernels} kernels, {own} nodes by PyTorch"]
        for f in found:
            for k in f.kernels:
                times = f" x{k.calls}" if k.calls > 1 else ""
                lines.append(f"  {k.name}{times}  {k.opts}  {k.origin}")
        counted = Counter((f.target, f.reason, f.line) for f in program.fallbacks)
        for (target, reason, line), count in counted.items():
            many = f" x{count}" if count > 1 else ""
            lines.append(f"  PyTorch: {target}{many}: {reason}{f' ({line})' if line else ''}")
        yield "\n".join(lines)
