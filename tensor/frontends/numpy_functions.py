"""NumPy's functions of tensors, by `__array_function__` and `__array_ufunc__`: `np.sum(t)` is the function of `ops` that is its twin, lazy
and fused like any other. What has no twin, or is given an argument that its twin does not know, is NumPy's own on converted arrays; a
profile counts that. Either way the results are tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from inspect import Parameter, signature
from itertools import pairwise
from typing import Any

from ...ir.dtypes import bool_
from ...ir.errors import DTypeError, UsageError
from ...plan.array_arguments import masked
from ..gradients.reverse import has_gradient
from ..graph.promotion import dtype_of
from ..graph.source_lines import at, user_line
from ..handle import TensorHandle
from ..leaves import from_numpy
from ..lift import KINDS, lifted
from ..ops import complex_numbers as Z
from ..ops import creation as C
from ..ops import elementwise as E
from ..ops import fft as F
from ..ops import indexing as I
from ..ops import joining as J
from ..ops import linalg as L
from ..ops import movement as M
from ..ops import reduction as R
from ..ops import sorting as S
from ..ops.einsum import einsum
from ..running.buffers import small
from ..running.current_capture import thread
from ..running.observers import WATCH, timed
from .habits import DECOMPOSITIONS, elsewhere
from .habits import FUNCTIONS as FUNCTIONS_OF_OTHERS
from .moved import VIEWS, ravel

Arguments = Mapping[str, Any]

UFUNCS: dict[str, Callable[..., Any]] = {
    "absolute": E.absolute, "true_divide": E.divide, "mod": E.remainder, "power": E.power, "invert": E.bitwise_invert,
    "left_shift": E.bitwise_left_shift, "right_shift": E.bitwise_right_shift, "rint": E.round, "conjugate": Z.conj, "nextafter": S.nextafter,
    "arcsin": E.asin, "arccos": E.acos, "arctan": E.atan, "arctan2": E.atan2, "arcsinh": E.asinh, "arccosh": E.acosh, "arctanh": E.atanh,
    "matmul": L.matmul, "vecdot": L.vecdot,
    **{name: getattr(E, name) for name in (
        "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "negative", "positive", "square", "sign", "signbit",
        "copysign", "hypot", "maximum", "minimum", "floor", "ceil", "trunc", "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sqrt",
        "logaddexp", "sin", "cos", "tan", "sinh", "cosh", "tanh", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
        "logical_and", "logical_or", "logical_xor", "logical_not", "bitwise_and", "bitwise_or", "bitwise_xor", "isnan", "isinf", "isfinite",
    )},
}  # fmt: skip
"""The twins of NumPy's universal functions."""
OF_FLOATS: dict[str, Callable[..., Any]] = {"fabs": E.absolute, "reciprocal": E.reciprocal}
"""Those of which NumPy has other results for integers."""

REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_or": "any", "logical_and": "all"}
"""What `ufunc.reduce` is called."""

FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(R, name) for name in (
        "sum", "prod", "max", "min", "mean", "var", "std", "any", "all", "argmax", "argmin", "count_nonzero", "cumsum", "cumprod",
    )},
    "amax": R.max, "amin": R.min, "cumulative_sum": R.cumulative_sum, "cumulative_prod": R.cumulative_prod,
    "reshape": M.reshape_to, "squeeze": M.squeeze, "expand_dims": M.expand_dims, "broadcast_to": M.broadcast_to, "flip": M.flip,
    "moveaxis": M.moveaxis, "swapaxes": M.swapaxes, "concatenate": J.concat, "concat": J.concat, "stack": J.stack, "tile": J.tile,
    "repeat": J.repeat, "roll": J.roll, "diff": J.diff, "diag": J.diag, "clip": E.clip, "isclose": E.isclose, "sort": S.sort, "argsort": S.argsort,
    "searchsorted": S.searchsorted, "nonzero": S.nonzero, "isin": S.isin, "take": I.take, "take_along_axis": I.take_along_axis,
    "tensordot": L.tensordot, "tril": C.tril, "triu": C.triu, "full_like": C.full_like, "meshgrid": C.meshgrid, "broadcast_arrays": C.broadcast_arrays,
    **{f"fft.{name}": getattr(F, name) for name in (
        "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fftn", "ifftn", "rfftn", "irfftn", "fftshift", "ifftshift",
    )},
    **{f"linalg.{name}": getattr(L, name) for name in (
        "inv", "det", "slogdet", "solve", "cholesky", "eigh", "eigvalsh", "svd", "svdvals", "pinv", "matrix_power",
    )},
}  # fmt: skip
"""The twins of other functions of NumPy's that take the same arguments, perhaps under other names."""

NAMES = {"ddof": "correction", "a_min": "min", "a_max": "max", "repeats": "repeats", "newshape": "shape", "reps": "repetitions"}
"""What NumPy's parameters are called here."""
IGNORED: dict[str, tuple[Any, ...]] = {"where": (True,), "order": ("K", "C", "A"), "subok": (True, False), "copy": (None, False)}
"""Values of parameters that are unknown here, with which they change nothing."""
WRITES = frozenset({"put", "place", "putmask", "fill_diagonal", "put_along_axis", "copyto"})
"""What writes to its first argument."""

_lifted = cache(lifted)
_signature = cache(signature)


class _NoTwin(Exception):
    """The call has an argument that our function does not know."""


def array_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Arguments) -> Any:
    """A function of NumPy's of arguments among which are tensors."""
    name = _name(function)
    out = kwargs.get("out")
    if name in WRITES:
        first, *rest = _signature(function).bind(*args, **kwargs).arguments.items()
        if isinstance(first[1], TensorHandle):
            if _gradient_asked([args, kwargs]):
                raise _without_gradient(name)
            array = first[1].numpy().copy()
            function(array, **{n: _arrays(v) for n, v in rest})
            first[1].assign(array)
            return None
    special = SPECIAL.get(name)
    try:
        if special is not None:
            return _into(out, special(*args, **{k: v for k, v in kwargs.items() if k != "out"}))
        if name in FUNCTIONS:
            given = _given(function, args, kwargs)
            out = given.pop("out", None)
            return _into(out, _twin(FUNCTIONS[name], given))
    except _NoTwin:
        pass
    return _numpy(name, function, args, kwargs, out)


def array_ufunc(ufunc: Any, method: str, args: tuple[Any, ...], kwargs: Arguments) -> Any:
    """A universal function of NumPy's of arguments among which are tensors."""
    options = {k: v for k, v in kwargs.items() if v is not None and not (k == "where" and v is True) and k != "out"}
    out = kwargs.get("out")
    if method == "__call__" and not options:
        twin = UFUNCS.get(ufunc.__name__) or (OF_FLOATS.get(ufunc.__name__) if args[0].dtype.kind in "fc" else None)
        if twin is not None:
            return _into(out, _lifted(twin)(*args))
    if method == "reduce" and ufunc.__name__ in REDUCED and args[1:] == ():
        try:
            options.setdefault("axis", kwargs.get("axis", 0))
            return _into(out, _twin(FUNCTIONS[REDUCED[ufunc.__name__]], {"x": args[0], **options}))
        except _NoTwin:
            pass
    name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
    return _numpy(name, getattr(ufunc, method), args, kwargs, out)


def _given(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Arguments) -> dict[str, Any]:
    """Arguments by NumPy's names of them. (NumPy has seen that they fit.)"""
    names = _names(function)
    if names is not None and len(args) <= len(names):
        return {**dict(zip(names, args, strict=False)), **kwargs}
    found = _signature(function).bind(*args, **kwargs)
    given = dict(found.arguments)
    for n, p in found.signature.parameters.items():
        if p.kind is Parameter.VAR_KEYWORD:
            given.update(given.pop(n, {}))
    return given


@cache
def _names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """What arguments without a name are, where each is one parameter."""
    kinds = {n: p.kind for n, p in _signature(function).parameters.items()}
    if Parameter.VAR_POSITIONAL in kinds.values():
        return None
    return tuple(n for n, k in kinds.items() if k in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD))


@cache
def _name(function: Callable[..., Any]) -> str:
    return next((f"{part}." for part in ("linalg", "fft") if part in function.__module__), "") + function.__name__


def _twin(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    """Our function of NumPy's arguments. Raises _NoTwin where one is unknown here."""
    import numpy as np

    known = _signature(function).parameters
    first: list[Any] = []
    for p in known.values():
        if p.kind is Parameter.VAR_POSITIONAL:
            first += given.pop(next(iter(given)))
            if any(x is None or isinstance(x, str) for x in first):
                raise _NoTwin
        elif given and (p.kind is Parameter.POSITIONAL_ONLY or not first):
            x = given.pop(next(iter(given)))
            first.append(TensorHandle.made_as(np.asarray(x)) if str(p.annotation) == "TensorNode" and isinstance(x, list) else x)
        else:
            break
    options = {}
    for n, v in given.items():
        called = NAMES.get(n, n)
        if called in known:
            options[called] = v
        elif n == "dtype" and v is not None and function in (R.mean, R.var, R.std) and dtype_of(v).kind in "fc":
            first[0] = first[0].astype(v)
        elif not (v is None or v is np._NoValue or (n in IGNORED and isinstance(v, (bool, str)) and v in IGNORED[n])):
            raise _NoTwin
    if options.get("axis", 0) is None and known["axis"].default is not None:  # (as if the array were flat)
        first[0] = [_tensor(x).ravel() for x in first[0]] if function is J.concat else _tensor(first[0]).ravel()
        options["axis"] = 0
    options = {n: v for n, v in options.items() if v is not np._NoValue and (v is not None or known[n].default is None)}
    return (VIEWS.get(function) or _lifted(function))(*first, **options)


def _numpy(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Arguments, out: Any) -> Any:
    """NumPy's own answer, as tensors; in what was given as `out`, it leaves what it does not write, as `where=` has it."""
    try:
        given, named = _arrays(list(args)), {k: _arrays(v) for k, v in kwargs.items() if k != "out"}
    except UsageError as e:  # (in a captured function)
        here = _here(name)
        way = f"here it is {here}" if here else "use the functions of tilewright.xp, or return the tensor, and do it after the call"
        raise UsageError(f"np.{name} called so is NumPy's own code, and a tensor has no value yet: {way}{at(user_line())}") from e
    asked = _gradient_asked([args, kwargs])
    outs = out if isinstance(out, tuple) else (out,)
    if out is not None:
        filled = tuple([x.numpy().copy() if isinstance(x, TensorHandle) else x for x in outs])
        named["out"] = filled if isinstance(out, tuple) else filled[0]
    if not WATCH.busy:
        found = function(*given, **named)
    else:
        with timed("numpy", f"{name} of converted arrays"):
            found = function(*given, **named)
    if asked and _holds_floats(found):
        raise _without_gradient(name)
    if out is None:
        return _tensors(found)
    for x, array in zip(outs, filled, strict=True):
        if isinstance(x, TensorHandle):
            x.assign(array)
    if not isinstance(found, tuple):
        return out[0] if isinstance(out, tuple) else out
    return tuple(_tensors(f) if x is None else x for f, x in zip(found, outs, strict=True))


def _arrays(x: Any) -> Any:
    """Tensors as arrays, also inside of lists, tuples and dicts."""
    if isinstance(x, TensorHandle):
        return x.numpy()
    if isinstance(x, (list, tuple)):
        return _alike(x, map(_arrays, x))
    return {k: _arrays(v) for k, v in x.items()} if isinstance(x, dict) else x


def _gradient_asked(x: Any) -> bool:
    """Whether a gradient may be asked for through a tensor, also inside of lists, tuples and dicts."""
    if isinstance(x, TensorHandle):
        return x.known is None and x.deferred is None and has_gradient(x.node)
    return any(map(_gradient_asked, x.values() if isinstance(x, dict) else x)) if isinstance(x, (list, tuple, dict)) else False


def _holds_floats(x: Any) -> bool:
    """Whether floats or complex numbers are among NumPy's results."""
    return any(map(_holds_floats, x)) if isinstance(x, (list, tuple)) else getattr(getattr(x, "dtype", None), "kind", "") in ("f", "c")


def _here(name: str) -> str | None:
    """What does the same as a function of NumPy's here."""
    within, _, alone = name.rpartition(".")
    known = within in ("", "linalg", "fft") or alone == "at"  # (else it is a method of a universal function)
    return elsewhere(alone, DECOMPOSITIONS if within == "linalg" else FUNCTIONS_OF_OTHERS) if known else None


def _without_gradient(name: str) -> UsageError:
    here = _here(name)
    instead = f"here it is {here}, or " if here else ""
    return UsageError(
        f"np.{name} is NumPy's own code, through which no gradient goes: {instead}x.detach() where none is wanted{at(user_line())}"
    )


def _alike(like: Any, parts: Iterable[Any]) -> Any:
    """A list or a tuple of another's kind, which may have names for its parts."""
    kind: Any = type(like)
    return kind(*parts) if hasattr(like, "_fields") else kind(parts)


def _tensors(x: Any) -> Any:
    """NumPy's results as tensors, where there is such a type."""
    import numpy as np

    if isinstance(x, (np.ndarray, np.generic)):
        array = np.asarray(x)
        if small(array) and not masked(x) and thread.capture is None:
            return TensorHandle.made_as.of_array(array)
        try:
            return TensorHandle.made_as(x) if x.dtype.kind == "c" else TensorHandle.made_as.of(from_numpy(np.asarray(x), dtype_of(x.dtype)))
        except DTypeError:
            return x
    return _alike(x, map(_tensors, x)) if isinstance(x, (list, tuple)) else x


def into(out: Any, value: Any) -> Any:
    """A result, written to what was given as `out`: a tensor or an array, or a tuple of one. None: the result itself."""
    if isinstance(out, tuple):
        (out,) = out
    if out is None:
        return value
    if isinstance(out, TensorHandle):
        if KINDS.index(value.dtype.kind) > KINDS.index(out.dtype.kind):
            raise DTypeError(f"a result of {value.dtype} in an out of {out.dtype}: cast it first")
        if out.shape != value.shape:
            raise UsageError(f"a result of shape {list(value.shape)} in an out of {list(out.shape)}")
        return out.assign(value)
    import numpy as np

    np.copyto(out, np.asarray(value), casting="same_kind")
    return out


_into = into


# functions whose arguments differ ---------------------------------------------------------------------------------
def where(condition: Any, *values: Any) -> Any:
    """Elements of the first value where a condition holds, else of the second; without values the places where it holds, as `nonzero`."""
    return _chosen(condition, *values) if values else _lifted(S.nonzero)(condition)


_chosen = lifted(E.where)


def _cut(ary: Any, indices_or_sections: Any, axis: int = 0, equal: bool = False) -> Any:
    """Parts along a dimension, which are views: between places, or so many of almost equal length (`equal`: of equal length)."""
    x, (places, d) = _tensor(ary), _arrays([indices_or_sections, axis])
    n = x.shape[d]
    if not isinstance(n, int):
        raise _NoTwin
    if hasattr(places, "__len__"):
        bounds = [0, *(int(p) for p in places), n]
    else:
        size, more = divmod(n, int(places))
        if equal and more:
            raise UsageError(f"split of {list(x.shape)} into {places} parts: {n} elements do not divide")
        bounds = [i * size + min(i, more) for i in range(int(places) + 1)]
    before = (slice(None),) * (d % x.ndim)
    return [x[(*before, slice(i, j))] for i, j in pairwise(bounds)]


def _at_least(rank: int, *given: Any) -> Any:
    """Tensors with dimensions of size 1 in front, to a rank of 1 or 2: views."""
    found = [x if x.ndim >= rank else x.reshape(*(1,) * (rank - x.ndim), *x.shape) for x in map(_tensor, given)]
    return found[0] if len(found) == 1 else tuple(found)


def _transpose(a: Any, axes: Any = None) -> Any:
    return _tensor(a).permute(*(axes or ()))


def _dot(a: Any, b: Any) -> Any:
    x, y = _tensor(a), _tensor(b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    if y.ndim > 2:
        raise _NoTwin
    return x @ y


def rounded_to(x: Any, decimals: int = 0) -> Any:
    """Rounded to decimals, halves to the even digit; integers stay as they are where there are decimals."""
    if decimals == 0 or (decimals > 0 and x.dtype.kind not in "fc"):
        return _lifted(E.round)(x)
    unit = 10 ** abs(decimals)
    out = _lifted(E.round)(x * unit) / unit if decimals > 0 else _lifted(E.round)(x / unit) * unit
    return out.astype(x.dtype)


def _array_of(a: Any, order: Any) -> Any:
    """NumPy's own array, with values of its own: `np.copy` is documented to be `np.array`, and libraries use it as that. Of a tensor
    that is captured, or that a gradient is asked of, it is a tensor."""
    import numpy as np

    x = _tensor(a)
    later = thread.capture is not None or thread.batches or (x.known is None and x.node.tracked)
    return x.copy() if later else np.array(x, order=order)


def _einsum(*operands: Any, optimize: Any = False, **options: Any) -> Any:
    if options or not isinstance(operands[0], str):
        raise _NoTwin
    return _lifted(einsum)(*operands)


def _degrees(x: Any, deg: bool) -> Any:
    from math import pi

    return x * (180 / pi) if deg else x


def _tensor(x: Any) -> Any:
    return x if isinstance(x, TensorHandle) else TensorHandle.made_as(x)


def _result_type(*given: Any) -> Any:
    import numpy as np

    return np.result_type(*(x.dtype.np if isinstance(x, TensorHandle) else x for x in given))


def _equal_numbers(value: int) -> Callable[..., Any]:
    """The same number everywhere, in the shape of a tensor."""

    def made(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, device: Any = None) -> Any:
        if shape is not None or device is not None or a.complex_class:
            raise _NoTwin
        return _lifted(C.full)(a.shape, value, dtype=a.dtype if dtype is None else dtype)

    return made


SPECIAL: dict[str, Callable[..., Any]] = {
    "zeros_like": _equal_numbers(0), "ones_like": _equal_numbers(1), "empty_like": _equal_numbers(0),
    "where": where, "outer": lambda a, b: _lifted(L.outer)(_tensor(a).ravel(), _tensor(b).ravel()), "transpose": _transpose, "permute_dims": _transpose, "dot": _dot, "einsum": _einsum, "result_type": _result_type,
    "ravel": lambda a, order="C": ravel(_tensor(a)) if order in ("C", "K", "A") else _no_twin(),
    "round": rounded_to, "around": rounded_to, "copy": lambda a, order="K", subok=False: _array_of(a, order),
    "shape": lambda a: a.shape, "ndim": lambda a: a.ndim, "iscomplexobj": lambda x: x.dtype.kind == "c", "isrealobj": lambda x: x.dtype.kind != "c",
    "size": lambda a, axis=None: a.size if axis is None else a.shape[axis],
    "real": lambda val: val.real, "imag": lambda val: val.imag, "angle": lambda z, deg=False: _degrees(_lifted(Z.angle)(z), deg),
    "array_split": _cut, "split": partial(_cut, equal=True), "vsplit": lambda ary, indices_or_sections: _cut(ary, indices_or_sections, 0, True),
    "hsplit": lambda ary, indices_or_sections: _cut(ary, indices_or_sections, min(1, _tensor(ary).ndim - 1), True),
    "atleast_1d": partial(_at_least, 1), "atleast_2d": partial(_at_least, 2), "dsplit": lambda ary, indices_or_sections: _cut(ary, indices_or_sections, 2, True),
    "trace": lambda a, offset=0, axis1=0, axis2=1, dtype=None: (
        _lifted(L.trace)(a, offset=offset, dtype=dtype) if a.ndim == 2 and {axis1 % 2, axis2 % 2} == {0, 1} and axis1 % 2 == 0 else _no_twin()
    ),
}  # fmt: skip
"""Twins that are written here."""


def _no_twin() -> Any:
    raise _NoTwin


# methods ----------------------------------------------------------------------------------------------------------
def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction as a method that takes what NumPy's does too: `out`, `dtype`, `ddof`."""
    call = lifted(function)
    known = _signature(function).parameters

    def method(self: Any, *args: Any, out: Any = None, **options: Any) -> Any:
        if not options and out is None:
            return call(self, *args)
        if "initial" in options or "where" in options:
            import numpy as np

            return array_function(getattr(np, function.__name__), (self, *args), {**options, "out": out})
        if "ddof" in options and "correction" in known:
            options["correction"] = options.pop("ddof")
        if "dtype" in options and "dtype" not in known:
            kind = options.pop("dtype")
            self = self if kind is None or dtype_of(kind) is bool_ else self.astype(kind)
        if "keepdims" in options:
            options["keepdims"] = bool(options["keepdims"])
        return into(out, call(self, *args, **options))

    method.__name__, method.__doc__ = function.__name__, function.__doc__
    return method
