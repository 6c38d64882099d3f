"""What is right: a program's results by NumPy in float64, how far a correct computation may be away from each element, and
where nothing is certain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from . import noisy, plain
from .leaves import values
from .program import Leaf, Program

NAMES: dict[str, Any] = {
    "np": np, "cast": noisy.cast, "number": noisy.number,
    **{k: f for k, f in vars(plain).items() if callable(f) and getattr(f, "__module__", "") == plain.__name__},
}  # fmt: skip
FEW, MANY = 6, 40
"""Runs with noise for a first look, and where that finds something wrong."""
SPREAD, UNITS = 4.0, 2.0
"""An element may be off by so many times what the runs spread, and so many units in its last place beside."""


@dataclass
class Expected:
    """One result: `kind` of its type, its value, how far it may be off, and where it is open (None: nowhere)."""

    kind: str
    value: Any
    off: Any
    open: Any


def kind_of(array: Any) -> str:
    """The type that an array of the oracle stands for."""
    return array.kind if isinstance(array, noisy.Noisy) else str(np.asarray(array).dtype)


def use(number: int, scale: float = 1.0, seed: int = 0) -> None:
    noisy.use(noisy.Run(number, scale, seed))


def array(leaf: Leaf) -> Any:
    """A leaf's values, as the oracle's arrays."""
    if leaf.what.startswith("below"):
        return np.random.default_rng(leaf.seed).integers(0, max(1, int(leaf.what.split()[1])), leaf.shape)
    found = values(leaf.what, leaf.seed, leaf.shape, leaf.dtype)
    return noisy.noisy(found, leaf.dtype) if leaf.dtype in noisy.EPS else found


def compiled(program: Program) -> Any:
    """The program's NumPy text as a function."""
    names = {**NAMES}
    exec(program.function("np"), names)
    return names["f"]


def results(function: Any, arrays: list[Any], runs: int, scale: float = 1.0, seed: int = 0) -> list[Expected]:
    """What `function` of arrays, a tuple, may be. Raises whatever NumPy does."""
    found: list[list[Any]] = []
    with np.errstate(all="ignore"):
        for number in range(runs + 3):
            use(number, scale, seed)
            found.append(list(function(*arrays)))
    return [summed_up([f[i] for f in found]) for i in range(len(found[0]))]


def summed_up(runs: list[Any]) -> Expected:
    """One result of all runs."""
    kind = kind_of(runs[0])
    value = np.asarray(runs[0])
    if kind not in noisy.EPS:
        differ = np.logical_or.reduce([np.asarray(r) != value for r in runs[1:]])
        return Expected(kind, value, np.zeros(value.shape), differ)
    all_runs = np.stack([np.asarray(r) for r in runs])
    with np.errstate(all="ignore"):
        kinds = np.where(np.isnan(all_runs), 2, np.where(np.isposinf(all_runs), 3, np.where(np.isneginf(all_runs), 4, 1)))
        top = noisy.TOP[kind]
        open_ = (kinds != kinds[0]).any(0) | (np.isfinite(value) & (np.abs(value) > 0.98 * top))
        safe = np.where(np.isfinite(all_runs), all_runs, 0.0)
        spread = np.abs(safe - safe[0]).max(0)
        off = SPREAD * spread + UNITS * noisy.EPS[kind] * np.abs(safe[0]) + noisy.LEAST[kind]
        open_ |= off > top  # some order of the operations passes the type's ends, and 0 times infinity is no number
    return Expected(kind, value, off, open_)


def difference(e: Expected, got: Any, dtype: str) -> str:
    """What is wrong with a result; '' where nothing is."""
    got = np.asarray(got)
    if dtype != e.kind:
        return f"its type is {dtype}, not {e.kind}"
    if got.shape != e.value.shape:
        return f"its shape is {list(got.shape)}, not {list(e.value.shape)}"
    if e.kind not in noisy.EPS:
        wrong = (got != e.value) & ~e.open
    else:
        x = got.astype(np.float64)
        with np.errstate(all="ignore"):
            near = np.abs(x - e.value) <= e.off
        same = (np.isnan(x) & np.isnan(e.value)) | (x == e.value)
        wrong = ~(near | same) & ~e.open
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    allowed = f" (± {e.off[at]:.3g})" if e.kind in noisy.EPS else ""
    return f"{int(wrong.sum())} of {wrong.size} elements are wrong: element {list(at)} is {got[at]}, not {e.value[at]}{allowed}"
