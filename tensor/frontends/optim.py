"""Optimisers as pure functions of trees: `update(params, grads, state)` returns new parameters and a new state, and changes
nothing. All of it is elementwise, so a parameter's whole update is one kernel with several outputs, and a step of
training is one graph, which `jit` captures as one function.

    step = adamw(cosine(3e-4, 1000, warmup=100), weight_decay=0.1)
    state = step.init(params)
    params, state = step.update(params, grads, state)

A learning rate is a number or a schedule: a function of the step's number (a tensor without dimensions, from 0)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING, Any

from ..tensor import Tensor
from ..trees import flatten, tree_map, unflatten
from .habits import no_optimiser

Tree = Any
Schedule = Callable[[Tensor], Tensor]
Rate = float | Schedule


@dataclass(frozen=True)
class Optimiser:
    """`init(params)` → state, a tree; `update(params, grads, state)` → (params, state)."""

    init: Callable[[Tree], Tree]
    update: Callable[[Tree, Tree, Tree], tuple[Tree, Tree]]


# schedules --------------------------------------------------------------------------------------------------------
def linear(start: float, end: float, steps: int) -> Schedule:
    """From `start` to `end` in `steps` steps, then constant."""
    return lambda t: start + (end - start) * (t * (1 / max(steps, 1))).minimum(1.0)


def cosine(peak: float, steps: int, warmup: int = 0, end: float = 0.0) -> Schedule:
    """Up to `peak` in `warmup` steps, then half a cosine down to `end` at step `steps` (Loshchilov and Hutter, "SGDR",
    2017), then constant."""

    def rate(t: Tensor) -> Tensor:
        part = ((t - float(warmup)) * (1 / max(steps - warmup, 1))).maximum(0.0).minimum(1.0)
        down = end + (peak - end) * 0.5 * ((part * pi).cos() + 1.0)
        out: Tensor = (t < float(warmup)).where((t + 1.0) * (peak / warmup), down) if warmup else down
        return out

    return rate


# gradients --------------------------------------------------------------------------------------------------------
def global_norm(grads: Tree) -> Tensor:
    """√ Σ g² over all elements of all tensors, a float32 without dimensions."""
    total = None
    for g in flatten(grads)[0]:
        square = (g * g).sum().astype("float32", copy=False)
        total = square if total is None else total + square
    return Tensor(0.0) if total is None else total.sqrt()


def clip_by_global_norm(grads: Tree, limit: float) -> tuple[Tree, Tensor]:
    """(gradients scaled so that their global norm is at most `limit`, the norm before)."""
    norm = global_norm(grads)
    factor = (limit / (norm + 1e-6)).minimum(1.0)
    return tree_map(lambda g: (_wide(g) * factor).astype(g.dtype, copy=False), grads), norm


# optimisers -------------------------------------------------------------------------------------------------------
def sgd(rate: Rate, momentum: float = 0.0, nesterov: bool = False, weight_decay: float = 0.0) -> Optimiser:
    """Stochastic gradient descent: v = momentum · v + g, p −= rate · v (with `nesterov`: rate · (g + momentum · v));
    `weight_decay` · p is added to the gradients, as PyTorch does."""

    def init(params: Tree) -> Tree:
        return {"step": Tensor(0.0), "velocity": _zeros(params) if momentum else None}

    def update(params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        lr = _rate(rate, state["step"])

        def each(p: Tensor, g: Tensor, v: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
            w, g = _wide(p), _wide(g)
            g = g + w * weight_decay if weight_decay else g
            if v is not None:
                v = _wide(v) * momentum + g
                g = g + v * momentum if nesterov else v
            return _as(w - g * _as(lr, w), p), None if v is None else _as(v, p)

        new, velocity = _each(each, 2, params, grads, *([state["velocity"]] if momentum else []))
        return new, {"step": state["step"] + 1.0, "velocity": velocity if momentum else None}

    return Optimiser(init, update)


def adam(rate: Rate, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0) -> Optimiser:
    """Adam (Kingma and Ba, 2015) with corrected moments; `weight_decay` · p is added to the gradients."""
    return _adam(rate, betas, eps, lambda p, g: (g + p * weight_decay if weight_decay else g, 0.0))


def adamw(
    rate: Rate,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    decays: Callable[[Tensor], bool] = lambda p: True,
) -> Optimiser:
    """Adam with decoupled weight decay (Loshchilov and Hutter, 2019): p −= rate · weight_decay · p, for the parameters that
    `decays` says."""
    return _adam(rate, betas, eps, lambda p, g: (g, weight_decay if decays(p) else 0.0))


def _adam(rate: Rate, betas: tuple[float, float], eps: float, decayed: Callable[[Tensor, Tensor], tuple[Tensor, float]]) -> Optimiser:
    def init(params: Tree) -> Tree:
        return {"step": Tensor(0.0), "mean": _zeros(params), "square": _zeros(params)}

    def update(params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        lr, step = _rate(rate, state["step"]), state["step"] + 1.0
        first, second = (1.0 - (step * log(b)).exp() for b in betas)
        size, root = lr / first, second.sqrt()

        def each(p: Tensor, g: Tensor, m: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            w = _wide(p)
            g, decay = decayed(w, _wide(g))
            m = _wide(m) * betas[0] + g * (1 - betas[0])
            v = _wide(v) * betas[1] + g * g * (1 - betas[1])
            kept = w * (1.0 - _as(lr, w) * decay) if decay else w
            return _as(kept - _as(size, w) * m / (v.sqrt() / _as(root, w) + eps), p), _as(m, p), _as(v, p)

        new, mean, square = _each(each, 3, params, grads, state["mean"], state["square"])
        return new, {"step": step, "mean": mean, "square": square}

    return Optimiser(init, update)


def _each(f: Callable[..., tuple[Any, ...]], count: int, params: Tree, *more: Tree) -> tuple[Tree, ...]:
    """`count` trees like `params`, of what `f` returns for each of its tensors."""
    rows: list[tuple[Any, ...]] = []
    tree_map(lambda *leaves: rows.append(f(*leaves)), params, *more)
    structure = flatten(params)[1]
    return tuple(unflatten(structure, [r[i] for r in rows]) for i in range(count))


def _zeros(params: Tree) -> Tree:
    import numpy as np

    return tree_map(lambda p: Tensor(np.zeros(p.shape, p.dtype.np), device=p.device), params)


def _rate(rate: Rate, step: Tensor) -> Tensor:
    return rate(step) if callable(rate) else step * 0.0 + rate


def _wide(x: Tensor) -> Tensor:
    """A tensor in the type that it is computed in, which has a rate's and a moment's digits where 16 bits have not."""
    out: Tensor = x.astype(x.dtype.compute, copy=False)
    return out


def _as(x: Tensor, p: Tensor) -> Tensor:
    out: Tensor = x.astype(p.dtype, copy=False)
    return out


if not TYPE_CHECKING:  # type checkers say themselves where a name is not here

    def __getattr__(name: str) -> object:
        raise AttributeError(name) if name.startswith("__") else no_optimiser(name)
