"""Find the first node of a model whose result differs from PyTorch's."""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx as fx
from torch.utils._pytree import tree_leaves, tree_map

from ...ir.errors import UsageError
from ...tensor.capture.jit_options import JitOptions
from .backend import threads
from .decompositions import decompositions, resizing
from .graph import compile_graph, runner

SLACK = 64.0
"""How many times the rounding of the type, times the size of the largest element, a result may differ: both sides round, in other orders."""


@dataclass(frozen=True)
class NodeDifference:
    """A node whose result differs from PyTorch's on the same operands. `error`: the largest difference; `bound`: what was allowed;
    `script`: a program of a few lines that shows it alone."""

    node: str
    target: str
    error: float
    bound: float
    script: str

    def __str__(self) -> str:
        return f"{self.node} ({self.target}) differs by {self.error:.3g}, where {self.bound:.3g} is rounding:\n\n{self.script}"


def compare(model: Callable[..., Any], *inputs: Any, kwargs: Mapping[str, Any] | None = None) -> NodeDifference | None:
    """Run a model's forward pass, `model(*inputs, **kwargs)`, node by node on PyTorch's own values, each node also on our kernels. Returns the first node whose result
    differs by more than rounding, or None. The model's state and the inputs stay as they are. Raises UsageError where the model cannot be
    traced as one graph."""
    from torch.fx.experimental.proxy_tensor import make_fx

    named = dict(kwargs or {})
    given = (*inputs, *named.values())
    if not any(isinstance(x, torch.Tensor) for x in tree_leaves(given)):
        raise UsageError("compare(model, *inputs, kwargs={…}): give the tensors that the model is called with")
    model = getattr(model, "_orig_mod", model)  # (what torch.compile was given)

    def call(*arguments: Any) -> Any:
        return model(*arguments[: len(inputs)], **dict(zip(named, arguments[len(inputs) :], strict=True)))

    with torch.no_grad(), _unchanged([*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []):
        try:
            with resizing():
                module = make_fx(call, decomposition_table=decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)(*given)
        except Exception as e:
            raise UsageError(
                f"compare: {type(model).__name__} cannot be traced as one graph ({type(e).__name__}: {e}); compare a part of it"
            ) from e
        found = _Comparison(module)
        found.run(*tree_map(lambda x: x.clone() if isinstance(x, torch.Tensor) else x, given))
    return found.first


@contextmanager
def _unchanged(state: Sequence[torch.Tensor]) -> Iterator[None]:
    """Within, a model may write to its state, such as running statistics; then it is as before."""
    before = [t.clone() for t in state]
    try:
        yield
    finally:
        for now, then in zip(state, before, strict=True):
            now.copy_(then)


class _Comparison(fx.Interpreter):  # type: ignore[misc]
    first: NodeDifference | None = None

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        values = [v for v in tree_leaves(result) if isinstance(v, torch.Tensor)]
        whole = n.op == "call_function" and n.target is not python_operator.getitem  # (one of several results was compared with them)
        if whole and values and self.first is None and "val" in n.meta:
            operands = [self.env[a] for a in n.all_input_nodes]
            self.first = self._compared(n, operands, result)
        return result

    def _compared(self, n: fx.Node, operands: Sequence[Any], result: Any) -> NodeDifference | None:
        alone = single(n, operands, result)
        program = compile_graph(alone, n.name, JitOptions(threads=threads()))
        if program.fallbacks:
            return None
        ours = runner(alone, program)([x for x in operands if isinstance(x, torch.Tensor)])
        for mine, theirs in zip(tree_leaves(ours), tree_leaves(result), strict=True):
            error, bound = _error(mine, theirs)
            if not error <= bound:
                return NodeDifference(n.name, str(n.target), error, bound, script(n, operands))
        return None


def _error(mine: torch.Tensor, theirs: torch.Tensor) -> tuple[float, float]:
    if not theirs.numel():
        return 0.0, 0.0
    if not theirs.is_floating_point():
        return float((mine != theirs).sum()), 0.0
    a, b = mine.double(), theirs.double()
    same = (a == b) | (a.isnan() & b.isnan())
    error = (a - b).abs().masked_fill(same, 0.0)
    size = b.abs().masked_fill(~b.isfinite(), 0.0).max()
    return float(error.nan_to_num(nan=float("inf")).max()), float(SLACK * torch.finfo(theirs.dtype).eps * size.clamp_min(1e-30))


def single(n: fx.Node, operands: Sequence[Any], result: Any) -> fx.GraphModule:
    """A graph of one node. Operands that are no tensors are constants of it."""
    graph = fx.Graph()
    known: dict[fx.Node, Any] = {}
    for a, x in zip(n.all_input_nodes, operands, strict=True):
        if isinstance(x, torch.Tensor):
            known[a] = graph.placeholder(a.name)
            known[a].meta["val"] = x
        else:
            known[a] = x
    args, kwargs = fx.node.map_arg((n.args, dict(n.kwargs)), known.__getitem__)
    node = graph.call_function(n.target, args, kwargs)
    node.meta["val"] = result
    outs: list[Any] = [node]
    if isinstance(result, (tuple, list)):
        outs = []
        for i, value in enumerate(result):
            if isinstance(value, torch.Tensor):
                item = graph.call_function(python_operator.getitem, (node, i))
                item.meta["val"] = value
                outs.append(item)
    graph.output(outs)
    return fx.GraphModule({}, graph)


def script(n: fx.Node, operands: Sequence[Any]) -> str:
    """A program that computes one node both ways, on random operands of the same shapes."""
    names = {a: a.name for a in n.all_input_nodes}
    lines = ["import torch", "", "torch.manual_seed(0)"]
    for a, x in zip(n.all_input_nodes, operands, strict=True):
        if not isinstance(x, torch.Tensor):
            lines.append(f"{a.name} = {x!r}")
        elif x.is_floating_point():
            lines.append(f"{a.name} = torch.randn({tuple(x.shape)}, dtype={x.dtype})")
        else:
            top = int(x.max()) + 1 if x.numel() else 1
            lines.append(f"{a.name} = torch.randint(0, {max(top, 1)}, {tuple(x.shape)}).to({x.dtype})")

    class Name(str):
        __repr__ = str.__str__

    args, kwargs = fx.node.map_arg((n.args, dict(n.kwargs)), lambda a: Name(names[a]))
    call = ", ".join([*(repr(a) for a in args), *(f"{k}={v!r}" for k, v in kwargs.items())])
    lines += ["", "", f"def node({', '.join(names.values())}):", f"    return torch.ops.{n.target}({call})", ""]
    lines += [
        "",
        f"print(node({', '.join(names.values())}))",
        f'print(torch.compile(node, backend="tilewright")({", ".join(names.values())}))',
    ]
    return "\n".join(lines) + "\n"
