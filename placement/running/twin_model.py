"""The model that a run computes, in one process or in pieces. Layers are y = act(x A) B, the loss half the squared
distance to a target, the step one with momentum. In integers everything is a polynomial modulo 2^64, so any order of
sums gives the same bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .run_spec import RunSpec

Array = Any
KEEP = {"int64": 3, "float32": 0.9, "float64": 0.9}


def weights(spec: RunSpec, layer: int) -> tuple[Array, Array]:
    """The whole A and B of a layer, before the first step."""
    draw = np.random.default_rng([spec.seed, 1, layer])
    return _values(spec, draw, (spec.hidden, spec.inner)), _values(spec, draw, (spec.inner, spec.hidden))


def data(spec: RunSpec, step: int, microbatch: int, rank: int) -> tuple[Array, Array]:
    """(input, target) of a microbatch of a data-parallel rank."""
    draw = np.random.default_rng([spec.seed, 2, step, microbatch, rank])
    return _values(spec, draw, (spec.batch, spec.hidden)), _values(spec, draw, (spec.batch, spec.hidden))


def _values(spec: RunSpec, draw: Any, shape: tuple[int, ...]) -> Array:
    if spec.dtype == "int64":
        return draw.integers(-(1 << 62), 1 << 62, shape, "int64")
    return draw.normal(0, shape[0] ** -0.5, shape).astype(spec.dtype)


def act(h: Array) -> Array:
    return h * h + h if h.dtype.kind == "i" else np.tanh(h)


def slope(h: Array) -> Array:
    """The derivative of `act`."""
    return 2 * h + 1 if h.dtype.kind == "i" else 1 - np.tanh(h) ** 2


def stepped(spec: RunSpec, weight: Array, momentum: Array, gradient: Array) -> tuple[Array, Array]:
    """(weight, momentum) after a step."""
    kept = momentum * np.asarray(KEEP[spec.dtype], spec.dtype) + gradient
    rows = spec.microbatches * spec.data * spec.batch
    rate = 1 if spec.dtype == "int64" else 0.01 / rows  # of the mean gradient: a step that diverges would make roundings large
    return weight - np.asarray(rate, spec.dtype) * kept, kept


@dataclass
class Saved:
    """What a layer keeps from its forward pass, and from the gradient of its input to that of its weights."""

    x: Array
    h: Array
    dy: Array = None
    dh: Array = None


def forward(x: Array, a: Array, b: Array) -> tuple[Array, Saved]:
    """A layer's output (of a piece of its columns: a part of the sum), and what is kept."""
    h = x @ a
    return act(h) @ b, Saved(x, h)


def input_gradient(dy: Array, a: Array, b: Array, saved: Saved) -> Array:
    """The gradient of the input (of a piece: a part of the sum)."""
    saved.dy, saved.dh = dy, (dy @ b.T) * slope(saved.h)
    return saved.dh @ a.T


def weight_gradient(saved: Saved) -> tuple[Array, Array]:
    return saved.x.T @ saved.dh, act(saved.h).T @ saved.dy


def reference(spec: RunSpec) -> list[tuple[Array, Array, Array, Array]]:
    """(A, B, their momenta) of each layer after all steps, in this process alone, a microbatch after the other."""
    with np.errstate(over="ignore"):
        layers = [[*weights(spec, k)] for k in range(spec.layers)]
        momenta = [[np.zeros_like(w) for w in pair] for pair in layers]
        for step in range(spec.steps):
            sums = [[np.zeros_like(w) for w in pair] for pair in layers]
            for i in range(spec.microbatches):
                for d in range(spec.data):
                    x, target = data(spec, step, i, d)
                    kept = []
                    for a, b in layers:
                        x, saved = forward(x, a, b)
                        kept.append(saved)
                    dy = x - target
                    for (a, b), saved, total in zip(reversed(layers), reversed(kept), reversed(sums)):
                        dy = input_gradient(dy, a, b, saved)
                        for t, g in zip(total, weight_gradient(saved)):
                            t += g
            for pair, moments, total in zip(layers, momenta, sums):
                for k in range(2):
                    pair[k], moments[k] = stepped(spec, pair[k], moments[k], total[k])
        return [(a, b, ma, mb) for (a, b), (ma, mb) in zip(layers, momenta)]


def bound(spec: RunSpec) -> float:
    """By what share of the largest element a float may be off: roundings of all sums that an element goes through."""
    sums = spec.layers * (spec.hidden + spec.inner) + spec.microbatches * spec.data * spec.batch
    return 0.0 if spec.dtype == "int64" else 4.0 * spec.steps * sums * float(np.finfo(spec.dtype).eps)


def differs(spec: RunSpec, got: Array, want: Array) -> str:
    """How an array is unlike the reference's; '' where it is equal, or within the bound."""
    if spec.dtype == "int64":
        wrong = int(np.count_nonzero(got != want))
        return f"{wrong} of {want.size} elements differ" if wrong else ""
    off = float(np.max(np.abs(got - want), initial=0.0)) / max(float(np.max(np.abs(want), initial=0.0)), 1e-30)
    return f"{off:.3g} of the largest element off, more than {bound(spec):.3g}" if not off <= bound(spec) else ""
