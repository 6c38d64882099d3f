"""The functions of `elementary.py`: each by our builder, and as a loop in C.

In C, `T` is the element type, functions are those of <tgmath.h> (so `sin` of a float is sinf), constants are cast by
`K`, and N is the number of elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.ir import functions as f

Range = tuple[float, float]


@dataclass(frozen=True)
class Function:
    """One function of one or two arguments: ours, the expression in C of x (and z), NumPy's in long double, and the
    ranges of the arguments (drawn uniformly)."""

    ours: Callable[..., Any]
    c: str
    exact: Callable[..., Any]
    ranges: tuple[Range, ...]
    main: bool = True
    """Whether it counts for the goal; the others are composed of these."""


def _np(name: str) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        import numpy as np

        return getattr(np, name)(*args)

    return call


def erf_long(x: Any) -> Any:
    """erf by its series e^(-x²) 2x/√π Σ (2x²)ⁿ / (1·3·5 … (2n+1)), all of whose terms are positive."""
    import numpy as np

    square = 2 * x * x
    term, total = np.ones_like(x), np.ones_like(x)
    for n in range(1, 160):
        term = term * square / (2 * n + 1)
        total = total + term
    return np.where(np.abs(x) > 6.5, np.sign(x), 2 * x / np.sqrt(np.longdouble("3.14159265358979323846264338")) * np.exp(-x * x) * total)


FUNCTIONS: dict[str, Function] = {
    "div": Function(lambda x, z: x / z, "x / z", lambda x, z: x / z, ((-9, 9), (0.5, 9))),
    "reciprocal": Function(lambda x: 1.0 / x, "K(1) / x", lambda x: 1 / x, ((0.5, 9),)),
    "sqrt": Function(f.sqrt, "sqrt(x)", _np("sqrt"), ((0.1, 90),)),
    "rsqrt": Function(f.rsqrt, "K(1) / sqrt(x)", lambda x: 1 / _np("sqrt")(x), ((0.1, 90),)),
    "exp": Function(f.exp, "exp(x)", _np("exp"), ((-20, 20),)),
    "expm1": Function(f.expm1, "expm1(x)", _np("expm1"), ((-3, 3),)),
    "log": Function(f.log, "log(x)", _np("log"), ((1e-3, 90),)),
    "log1p": Function(f.log1p, "log1p(x)", _np("log1p"), ((-0.9, 9),)),
    "sin": Function(f.sin, "sin(x)", _np("sin"), ((-30, 30),)),
    "cos": Function(f.cos, "cos(x)", _np("cos"), ((-30, 30),)),
    "tan": Function(f.tan, "tan(x)", _np("tan"), ((-30, 30),)),
    "atan": Function(f.atan, "atan(x)", _np("arctan"), ((-9, 9),)),
    "tanh": Function(f.tanh, "tanh(x)", _np("tanh"), ((-4, 4),)),
    "erf": Function(f.erf, "erf(x)", erf_long, ((-4, 4),)),
    "pow": Function(f.power, "pow(x, z)", _np("power"), ((0.1, 9), (-3, 3))),
    "pow 1.7": Function(lambda x: f.power(x, 1.7), "pow(x, K(1.7))", lambda x: _np("power")(x, type(x[0])(1.7)), ((0.1, 9),)),
    "sigmoid": Function(f.sigmoid, "K(1) / (K(1) + exp(-x))", lambda x: 1 / (1 + _np("exp")(-x)), ((-9, 9),)),
    "asin": Function(f.asin, "asin(x)", _np("arcsin"), ((-1, 1),), False),
    "acos": Function(f.acos, "acos(x)", _np("arccos"), ((-1, 1),), False),
    "atan2": Function(f.atan2, "atan2(x, z)", _np("arctan2"), ((-9, 9), (-9, 9)), False),
    "sinh": Function(f.sinh, "sinh(x)", _np("sinh"), ((-9, 9),), False),
    "cosh": Function(f.cosh, "cosh(x)", _np("cosh"), ((-9, 9),), False),
    "asinh": Function(f.asinh, "asinh(x)", _np("arcsinh"), ((-9, 9),), False),
    "acosh": Function(f.acosh, "acosh(x)", _np("arccosh"), ((1, 90),), False),
    "atanh": Function(f.atanh, "atanh(x)", _np("arctanh"), ((-0.99, 0.99),), False),
}
