"""Functions of functions: gradients of what computes with tensors. All of them build graphs and compute nothing.

Arguments and results are trees (`trees`): lists, tuples and dicts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from ...ir.errors import UsageError
from ..frontends.habits import answered
from ..graph import primitives as P
from ..graph.nodes import Mark, OpenArgument, TensorNode
from ..graph.source_lines import at, user_line
from ..running.current_capture import thread
from ..tensor import Tensor, as_tensor
from ..trees import flatten, tree_map, unflatten
from .checkpoint import CheckpointRegion
from .reverse import gradients

__all__ = ["checkpoint", "grad", "jvp", "stop_gradient", "value_and_grad", "vjp"]

Function = Callable[..., Any]


@contextmanager
def _opened(trees: Sequence[Any]) -> Iterator[list[Any]]:
    """The trees with each tensor as an argument: a node of its own, whose gradient can be taken apart from other uses of
    the same values."""
    marks: list[OpenArgument] = []

    def opened(x: Any) -> Tensor:
        t = as_tensor(x)
        if t.complex_class:  # (a tree whose leaf has both parts)
            both: Tensor = tree_map(opened, t)
            return both
        if not t.dtype.is_float:
            raise UsageError(
                f"a gradient with respect to {t.dtype}{list(t.shape)}: only floats have gradients; give what is none as an argument of its own{at(user_line())}"
            )
        marks.append(OpenArgument())
        node = P.marked(t.node, marks[-1])
        node.data, node.tracked = t.node.data, True
        out: Tensor = Tensor.of(node, t.device)
        return out

    given = [tree_map(opened, t) for t in trees]
    thread.transformed += 1
    try:
        yield given
    finally:
        thread.transformed -= 1
        for m in marks:
            m.open = False


@answered
def value_and_grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """A function like `f`, which returns (value, gradients): `f` returns one float (a tensor of one element), and the
    gradients are a tree like argument `argnums` (a tuple of trees for several). With `has_aux`, `f` returns (value,
    anything), and so does the function's first result. Raises UsageError where the value is no single float."""
    several = not isinstance(argnums, int)
    places: tuple[int, ...] = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(f, updated=())
    def differentiated(*args: Any, **keywords: Any) -> Any:
        if any(not -len(args) <= p < len(args) for p in places):
            raise UsageError(
                f"the gradient with respect to argument {max(places)}, but there are {len(args)} arguments by position{at(user_line())}"
            )
        given = list(args)
        with _opened([args[p] for p in places]) as opened:
            for p, tree in zip(places, opened):
                given[p] = tree
            leaves, structure = flatten(opened)
            sources = [t.node for t in leaves]  # (which the function may write to)
            result = f(*given, **keywords)
            value = result[0] if has_aux else result
            _one_float(value)
            nodes = gradients([value.node], [P.const(1, value.dtype, value.shape)], sources)
            found = unflatten(structure, [Tensor.of(n, t.device) for n, t in zip(nodes, leaves, strict=True)])
        return result, tuple(found) if several else found[0]

    return differentiated


@answered
def grad(f: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Function:
    """As `value_and_grad`, but only the gradients are returned (with `has_aux`: gradients and the other results)."""
    both = value_and_grad(f, argnums, has_aux)

    @wraps(f, updated=())
    def differentiated(*args: Any, **keywords: Any) -> Any:
        result, found = both(*args, **keywords)
        return (found, result[1]) if has_aux else found

    return differentiated


@answered
def vjp(f: Function, *args: Any) -> tuple[Any, Function]:
    """(f(*args), pull): `pull` takes a tree like the result, and returns a tuple of trees like the arguments: the
    transposed Jacobian times it. It may be called several times."""
    with _opened(args) as opened:
        leaves, structure = flatten(opened)
        sources = [t.node for t in leaves]  # (which the function may write to)
        result = tree_map(as_tensor, f(*opened))
    outs, shape = flatten(result)
    roots = [o.node for o in outs]  # (whoever reads a tensor's values gives it a node that is memory)

    def pull(cotangents: Any) -> Any:
        given, other = flatten(cotangents)
        if other != shape:
            raise UsageError(f"what is pulled back has the structure {other}, but the result has {shape}")
        nodes = [_like(g, r, "a cotangent") for g, r in zip(given, roots, strict=True)]
        found = gradients(roots, nodes, sources)
        return tuple(unflatten(structure, [Tensor.of(n, t.device) for n, t in zip(found, leaves, strict=True)]))

    return result, pull


@answered
def jvp(f: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), the Jacobian times the tangents), each tangent a tree like its primal. Taken as the transpose of the
    transpose: pulling u back is linear in u, and its own transpose is the Jacobian (Radul et al., "You only linearize
    once", 2022, from the other side)."""
    with _opened(primals) as opened:
        leaves, structure = flatten(list(opened))
        sources = [t.node for t in leaves]
        result = tree_map(as_tensor, f(*opened))
    given, other = flatten(list(tangents))
    if other != structure:
        raise UsageError(f"the tangents have the structure {other}, but the primals have {structure}")
    outs, shape = flatten(result)
    for o in outs:
        if not o.dtype.is_float:
            raise UsageError(f"the tangent of a result of type {o.dtype}: only floats have tangents")
    moves = [_like(g, n, "a tangent") for g, n in zip(given, sources, strict=True)]
    with _opened([Tensor.of(P.const(0, o.dtype, o.shape), o.device) for o in outs]) as pulling:
        dummies = [t.node for t in pulling]
        pushed = gradients(gradients([o.node for o in outs], dummies, sources), moves, dummies)
    return result, unflatten(shape, [Tensor.of(n, o.device) for n, o in zip(pushed, outs, strict=True)])


def stop_gradient(tree: Any) -> Any:
    """The same values, which count as constants when a gradient is taken."""
    return tree_map(lambda t: Tensor.of(P.stop_gradient(t.node), t.device) if isinstance(t, Tensor) else t, tree)


@answered
def checkpoint(f: Function) -> Function:
    """`f`, whose intermediate values are computed again in the backward pass and not kept for it: less memory for about one
    more forward pass of `f`. What `f` takes from elsewhere than its arguments is kept."""

    @wraps(f, updated=())
    def checkpointed(*args: Any, **keywords: Any) -> Any:
        leaves, structure = flatten(args)
        inputs: list[TensorNode] = []
        given: list[Any] = []
        for t in leaves:
            if isinstance(t, Tensor):
                inputs.append(P.marked(t.node, Mark("input")))
                given.append(Tensor.of(inputs[-1], t.device))
            else:
                given.append(t)
        result = f(*unflatten(structure, given), **keywords)
        region = CheckpointRegion(inputs)

        def marked(t: Any) -> Any:
            return Tensor.of(P.marked(t.node, region), t.device) if isinstance(t, Tensor) and t.dtype.is_float else t

        return tree_map(marked, result)

    return checkpointed


def _like(x: Any, node: TensorNode, what: str) -> TensorNode:
    """`x` as a node of the shape and type of `node`."""
    t = as_tensor(x)
    if t.shape != node.shape:
        raise UsageError(f"{what} of shape {list(t.shape)} for a tensor of shape {list(node.shape)}")
    return P.cast(t.node, node.dtype)


def _one_float(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise UsageError(f"the function returned {type(value).__name__}: a gradient is taken of a tensor (use has_aux for other results)")
    if value.node.size != 1 or not value.dtype.is_float:
        raise UsageError(
            f"the function returned {value.dtype}{list(value.shape)}: a gradient is taken of one float (a sum or a mean){at(user_line())}"
        )
