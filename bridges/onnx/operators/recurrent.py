"""Recurrent networks, step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from .... import xp
from ....ir.errors import UsageError
from ....tensor import scan
from .table import Call, operator

ACTIVATIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "Tanh": lambda x, a, b: x.tanh(),
    "Sigmoid": lambda x, a, b: x.sigmoid(),
    "Relu": lambda x, a, b: x.relu(),
    "Affine": lambda x, a, b: x * (1.0 if a is None else a) + (b or 0.0),
    "LeakyRelu": lambda x, a, b: x.leaky_relu(0.01 if a is None else a),
    "ThresholdedRelu": lambda x, a, b: xp.where(x > (1.0 if a is None else a), x, 0),
    "ScaledTanh": lambda x, a, b: (x * (1.0 if b is None else b)).tanh() * (1.0 if a is None else a),
    "HardSigmoid": lambda x, a, b: (x * (0.2 if a is None else a) + (0.5 if b is None else b)).clip(0, 1),
    "Elu": lambda x, a, b: x.elu(1.0 if a is None else a),
    "Softsign": lambda x, a, b: x.softsign(),
    "Softplus": lambda x, a, b: x.softplus(),
}
DEFAULT = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
TWO_PARAMETERS = ("Affine", "ScaledTanh", "HardSigmoid")
ONE_PARAMETER = ("LeakyRelu", "ThresholdedRelu", "Elu")


def _activations(names: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float | None) -> list[Callable[[Any], Any]]:
    """The functions by name; those that have parameters take the next of each list."""
    alphas, betas = list(alpha), list(beta)
    made: list[Callable[[Any], Any]] = []
    for given in names:
        name = next((n for n in ACTIVATIONS if n.lower() == given.lower()), None)
        if name is None:
            raise UsageError(f"a recurrent network with the activation {given!r}: known are {', '.join(ACTIVATIONS)}")
        a = alphas.pop(0) if alphas and name in TWO_PARAMETERS + ONE_PARAMETER else None
        b = betas.pop(0) if betas and name in TWO_PARAMETERS else None
        made.append(partial(_apply, ACTIVATIONS[name], a, b, clip))
    return made


def _apply(function: Callable[[Any, Any, Any], Any], a: Any, b: Any, clip: float | None, x: Any) -> Any:
    return function(x if clip is None else x.clip(-clip, clip), a, b)


Step = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(what the input brings, hidden state, cell) → (hidden state, cell)."""


def _rnn_step(f: list[Any], r: Any, rb: Any) -> Step:
    return lambda g, h, cell: (f[0](g + h @ r + rb), cell)


def _gru_step(f: list[Any], r: Any, rb: Any, before_reset: bool) -> Step:
    hidden = r.shape[0]
    first = 3 * hidden if before_reset else 2 * hidden  # (what is multiplied by the state as it is)

    def step(g: Any, h: Any, cell: Any) -> tuple[Any, Any]:
        gz, gr, gh = g.split(3, 1)
        hz, hr, *rest = (h @ r[:, :first] + rb[:first]).split(first // hidden, 1)
        update, reset = f[0](gz + hz), f[0](gr + hr)
        new = f[1](gh + reset * rest[0]) if before_reset else f[1](gh + (reset * h) @ r[:, first:] + rb[first:])
        return (1 - update) * new + update * h, cell

    return step


def _lstm_step(f: list[Any], r: Any, rb: Any, peep: Any, coupled: bool) -> Step:
    pi, po, pf = peep.split(3, 0) if peep is not None else (0.0, 0.0, 0.0)

    def step(g: Any, h: Any, cell: Any) -> tuple[Any, Any]:
        i, o, keep, new = (g + h @ r + rb).split(4, 1)
        i = f[0](i + pi * cell)
        keep = 1 - i if coupled else f[0](keep + pf * cell)
        inner = keep * cell + i * f[1](new)
        return f[0](o + po * inner) * f[2](inner), inner

    return step


@operator("RNN", "GRU", "LSTM")
def recurrent(
    call: Call, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h0: Any = None, c0: Any = None, peep: Any = None,
    hidden_size: int | None = None, direction: str = "forward", layout: int = 0, activations: Any = None, activation_alpha: Any = (),
    activation_beta: Any = (), clip: float | None = None, linear_before_reset: int = 0, input_forget: int = 0, output_sequence: int = 0, rows_first: int = 0,
) -> Any:  # fmt: skip
    """All states, the last one, and the last cell; forward, backward or both. `rows_first`: each of `r` is (hidden, gates)."""
    if layout:
        x, h0, c0 = x.swapaxes(0, 1), *(None if t is None else t.swapaxes(0, 1) for t in (h0, c0))
    steps, batch, hidden, ways = x.shape[0], x.shape[1], r.shape[1 if rows_first else -1], w.shape[0]
    names = list(activations or DEFAULT[call.kind] * ways)
    functions = _activations(names, activation_alpha, activation_beta, clip)
    each = len(names) // ways
    outs, lasts, cells = [], [], []
    for way in range(ways):
        zero = xp.zeros((batch, hidden), dtype=x.dtype)
        h, cell = (zero if t is None else t[way] for t in (h0, c0))
        rows = w.shape[1]
        wb, rb = (b[way][:rows], b[way][rows:]) if b is not None else (xp.zeros((rows,), dtype=x.dtype),) * 2
        f = functions[way * each : way * each + each]
        turned = r[way] if rows_first else r[way].T
        if call.kind == "RNN":
            step = _rnn_step(f, turned, rb)
        elif call.kind == "GRU":
            step = _gru_step(f, turned, rb, bool(linear_before_reset))
        else:
            step = _lstm_step(f, turned, rb, None if peep is None else peep[way], bool(input_forget))
        y, h, cell = _steps(step, x @ w[way].T + wb, h, cell, lengths, backward=direction == "reverse" or way == 1)
        outs.append(y)
        lasts.append(h)
        cells.append(cell)
    y, h, cell = xp.stack(outs, axis=1), xp.stack(lasts, axis=0), xp.stack(cells, axis=0)
    if layout:
        y, h, cell = y.permute((2, 0, 1, 3)), h.swapaxes(0, 1), cell.swapaxes(0, 1)
    assert y.shape[0 if not layout else 1] == steps
    return y, h, cell


def _steps(step: Step, brought: Any, h: Any, cell: Any, lengths: Any, backward: bool) -> tuple[Any, Any, Any]:
    """A sequence of states. Beyond a sequence's length the state stays, and 0 is returned."""

    def one(carry: Any, x: Any) -> Any:
        now, t = x
        new, inner = step(now, *carry)
        if lengths is None:
            return (new, inner), new
        inside = (lengths > t).reshape((-1, 1))
        return (xp.where(inside, new, carry[0]), xp.where(inside, inner, carry[1])), xp.where(inside, new, 0)

    (h, cell), found = scan(one, (h, cell), (brought, xp.arange(brought.shape[0])), reverse=backward)
    return found, h, cell
