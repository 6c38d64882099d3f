"""Arrays of NumPy that know how far a correct computation in a narrower type may be away from them.

A `Noisy` is an array in float64 that stands for one of `kind` (float16 to float64). Every operation that rounds adds noise: as
much as one rounding in that type, or for a sum as much as its order may do. A program is run several times with other noise;
where the results spread, so may those of a correct computation (Monte Carlo arithmetic: D. S. Parker, UCLA CSD-970002, 1997).
This follows conditions (a cancellation, an ill-conditioned function) that constants cannot, and comparisons that noise turns
around show as elements that differ between the runs.

Three runs are special: the first has no noise; the second rounds every operation to its type, as NumPy would in that type, so
that what overflows there is infinite; the third does so to float32 where the type is narrower, as kernels do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""One unit in the last place of 1."""
TOP = {"float16": 65504.0, "bfloat16": 3.3895e38, "float32": 3.4028235e38, "float64": np.inf}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 2.0**-1074}
ORDER = ("float16", "bfloat16", "float32", "float64")
NUMPY: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}

EXACT = frozenset({
    "negative", "positive", "absolute", "fabs", "maximum", "minimum", "fmax", "fmin", "sign", "floor", "ceil", "trunc", "rint", "copysign",
    "isnan", "isinf", "isfinite", "signbit", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "logical_not",
})  # fmt: skip
ROUNDED = frozenset({"add", "subtract", "multiply", "true_divide", "divide", "sqrt", "square", "reciprocal"})
DECIDES = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "isinf", "isfinite", "sign", "signbit", "floor", "ceil", "trunc", "rint"})  # fmt: skip
"""What decides by the numbers of a type of 16 bits, and not by those that it is computed in."""
FUNCTION = 4.0
"""Units in the last place that an elementary function may be off."""


class Run:
    """One run of a program. `number` 0 to 2 are the special ones, others have noise of their own; `scale` multiplies it. In run −1
    even conversions do not round, so that functions can be differentiated."""

    def __init__(self, number: int, scale: float = 1.0, seed: int = 0) -> None:
        self.number, self.scale = number, scale
        self.rng = np.random.default_rng([seed, number]) if number > 2 else None

    def result(self, value: Any, kind: str, amplitude: Any, sums: bool = False) -> Any:
        """A value with this run's noise, of at most `amplitude`, or rounded. `sums`: it was added up."""
        if self.rng is not None:
            if sums:  # whether a sum of zeros is 0 or −0 depends on where it begins
                value = np.where(value == 0, np.copysign(0.0, self.rng.uniform(-1.0, 1.0, np.shape(value))), value)
            size = np.where(np.isfinite(value), amplitude, 0.0) * self.scale
            return value + size * self.rng.uniform(-1.0, 1.0, np.shape(value))
        if self.number == 1 or (self.number == 2 and kind in ("float32", "float64")):
            return rounded(value, kind)
        return rounded(value, "float32") if self.number == 2 else value


class _Now:
    run = Run(0)


def rounded(x: Any, kind: str) -> Any:
    """The nearest numbers of a type, in float64; the same ones in a smooth run."""
    return x if _Now.run.number < 0 else nearest(x, kind)


def nearest(x: Any, kind: str) -> Any:
    """The nearest numbers of a type, in float64."""
    return x if kind == "float64" else np.asarray(x, np.float64).astype(NUMPY[kind]).astype(np.float64)


def promoted(kinds: list[str]) -> str:
    """The type of an operation on these."""
    found = set(kinds)
    if found == {"float16", "bfloat16"}:
        return "float32"
    return max(found, key=ORDER.index)


class Noisy(np.ndarray):
    """float64 that stands for `kind`."""

    kind: str = "float64"

    def __array_finalize__(self, obj: Any) -> None:
        self.kind = getattr(obj, "kind", "float64")

    def __getitem__(self, key: Any) -> Any:
        found = super().__getitem__(key)
        return found if isinstance(found, np.ndarray) else noisy(found, self.kind)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        kind = promoted([i.kind for i in inputs if isinstance(i, Noisy)] or ["float64"])
        raw = [np.asarray(i) if isinstance(i, Noisy) else i for i in inputs]
        if "where" in options and isinstance(options["where"], Noisy):
            raise TypeError("a mask is boolean")
        if ufunc is np.copysign and _now().rng is not None:  # the sign of NaN is nobody's promise
            raw[1] = np.where(np.isnan(raw[1]), _now().rng.choice([-1.0, 1.0], np.shape(raw[1])), raw[1])
        if ufunc.__name__ in DECIDES and kind in ("float16", "bfloat16"):
            raw = [rounded(r, kind) if np.asarray(r).dtype.kind == "f" else r for r in raw]
        value = getattr(ufunc, method)(*raw, **options)
        if method == "at":
            target = inputs[0]
            size = np.zeros(target.shape)
            np.add.at(size, raw[1], np.abs(raw[2]))
            target[...] = noisy(_now().result(np.asarray(target), kind, _sum_eps(kind, 64) * size, True), kind)
            return None
        if isinstance(value, tuple) or np.asarray(value).dtype.kind != "f":
            return value
        name = ufunc.__name__
        if name in ("maximum", "minimum") and _now().rng is not None:  # which of 0 and −0 is the larger is not defined
            ties = value == 0 if method != "__call__" else (value == 0) & (raw[0] == raw[1])
            value = np.where(ties, np.copysign(0.0, _now().rng.uniform(-1.0, 1.0, np.shape(value))), value)
        if name not in EXACT or (method == "reduce" and name in ("add", "multiply")):
            sums = name == "matmul" or (name == "add" and method != "__call__")
            value = _now().result(value, kind, _amplitude(ufunc, method, raw, options, value, kind), sums)
        found = noisy(value, kind)
        if out is not None:
            out[0][...] = found
            return out[0]
        return found

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        kinds: list[str] = []

        def strip(x: Any) -> Any:
            if isinstance(x, Noisy):
                kinds.append(x.kind)
                return np.asarray(x)
            return type(x)(map(strip, x)) if isinstance(x, (list, tuple)) else x

        raw, named = strip(list(args)), {k: strip(v) for k, v in kwargs.items()}
        kind = promoted(kinds)
        if function is np.einsum:
            value = np.einsum(*raw)
            terms = max(max(np.shape(a), default=1) for a in raw[1:]) ** 2
            value = _now().result(
                value, kind, _sum_eps(kind, terms) * np.einsum(raw[0], *map(np.abs, raw[1:])) + EPS[kind] * np.abs(value), True
            )
            return noisy(value, kind)
        if function in (np.shape, np.ndim, np.size, np.result_type):
            return function(*raw, **named)
        if function not in MOVES:
            raise TypeError(f"{function.__name__} of noisy arrays: write it with ufuncs in plain.py")
        value = function(*raw, **named)
        if isinstance(value, (list, tuple)):
            return [noisy(v, kind) for v in value]
        return noisy(value, kind) if np.asarray(value).dtype.kind == "f" else value


MOVES = {
    np.where, np.concatenate, np.stack, np.pad, np.roll, np.flip, np.take, np.take_along_axis, np.sort, np.argsort, np.argmax, np.argmin,
    np.repeat, np.tile, np.broadcast_to, np.transpose, np.reshape, np.expand_dims, np.swapaxes, np.moveaxis, np.squeeze, np.tril, np.triu,
    np.diagonal, np.zeros_like, np.ones_like, np.broadcast_arrays, np.searchsorted, np.copy, np.count_nonzero,
}  # fmt: skip


def _now() -> Run:
    return _Now.run


def use(run: Run) -> None:
    """Noise is this run's from here on."""
    _Now.run = run


def noisy(x: Any, kind: str) -> Any:
    """An array (float64) as one of `kind`."""
    found = np.asarray(x, np.float64).view(Noisy)
    found.kind = kind
    return found


def cast(x: Any, to: str) -> Any:
    """A conversion that somebody wrote: it rounds."""
    if to not in EPS:
        return np.asarray(x).astype(to)
    return noisy(rounded(np.asarray(x), to), to)


def number(k: float, kind: str) -> Any:
    """A Python number beside an array of a type has that type."""
    return noisy(nearest(np.float64(k), kind), kind) if kind in EPS else np.dtype(kind).type(k)


def _sum_eps(kind: str, terms: int) -> float:
    """How far the order of a sum may move it, for each unit of its terms' sizes. Narrow types are added up in float32."""
    return min(EPS[kind], EPS["float32"]) * (2.0 + terms**0.5)


def _amplitude(ufunc: Any, method: str, raw: list[Any], options: Any, value: Any, kind: str) -> Any:
    name, size = ufunc.__name__, np.abs(value)
    least = np.where(value != 0, LEAST[kind], 0.0)
    if method in ("reduce", "accumulate") and name == "add":
        terms = np.size(raw[0]) // max(1, np.size(value)) if method == "reduce" else max(np.shape(raw[0]), default=1)
        options = {k: v for k, v in options.items() if k != "initial"}
        return _sum_eps(kind, max(terms, 1)) * getattr(np.add, method)(np.abs(raw[0]), **options) + EPS[kind] * size + least
    if method in ("reduce", "accumulate"):
        terms = np.size(raw[0]) // max(1, np.size(value)) if method == "reduce" else max(np.shape(raw[0]), default=1)
        return EPS[kind] * max(terms, 1) * size + least
    if name == "matmul":
        terms = max(1, np.shape(raw[0])[-1])
        return _sum_eps(kind, terms) * np.matmul(np.abs(raw[0]), np.abs(raw[1])) + EPS[kind] * size + least
    if name in ROUNDED:
        return EPS[kind] * size + least
    if name in ("floor_divide", "remainder", "fmod"):
        return EPS[kind] * size
    return FUNCTION * EPS[kind] * size + least
