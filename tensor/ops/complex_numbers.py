"""Complex numbers as pairs of real nodes, and what is computed of them.

Kernels know no complex type. A complex array is two real ones, which every function here combines, so that pairs fuse, and have gradients,
like all real nodes. In memory the two lie interleaved, as NumPy has them: a real array with a last dimension of 2, of which `re` and `im`
are index maps. What has no short formula, such as decompositions and inverse sines, is NumPy's code on the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from math import log as ln
from typing import TYPE_CHECKING, Any

from ...ir.dtypes import DType, complex64, complex128, float32, float64
from ...ir.errors import DTypeError, TilewrightError, UsageError
from ..graph.captured_numbers import captured
from ..graph.nodes import HostCall, TensorNode
from ..graph.primitives import cast, host, rounded
from ..graph.promotion import default_float, dtype_of, to_float
from ..graph.source_lines import user_line, with_line
from ..leaves import as_array, from_numpy, leaf, of_others, values
from ..running import buffers
from . import creation as C
from . import elementwise as E
from . import indexing as I
from . import joining as J
from . import linalg as L
from . import movement as M
from . import reduction as R
from . import sorting as S
from .einsum import einsum

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Rule = Callable[..., Any]
REAL = {complex64: float32, complex128: float64}
"""The type of the parts."""
COMPLEX = {real: kind for kind, real in REAL.items()}


@dataclass(frozen=True, eq=False)
class ComplexParts:
    """re + i·im. Parts are real nodes of one shape and float type; of a Python number they are numbers. `whole`: where the pair can be
    computed as it lies in memory, by the same operations for both parts, what makes that node: kernels have more lanes so."""

    re: Any
    im: Any
    whole: Callable[[], TensorNode] | None = None

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.re.shape if isinstance(self.re, TensorNode) else ()


def is_complex(x: Any) -> bool:
    """Whether an argument is complex: a pair, a number, or a type; also inside of lists and tuples."""
    if type(x) in (TensorNode, int, float, bool) or x is None:
        return False
    if isinstance(x, (list, tuple)):
        return any(map(is_complex, x))
    if isinstance(x, str):
        return x.startswith("complex")
    return isinstance(x, (ComplexParts, complex)) or complex_type(x) is not None


def complex_type(x: Any) -> DType | None:
    """An element type that is complex, however it is called; None for all else."""
    if isinstance(x, (DType, type)) or type(x).__module__.startswith("numpy"):
        try:
            kind = dtype_of(x)
        except (DTypeError, TypeError):
            return None
        return kind if kind.kind == "c" else None
    return dtype_of(x) if isinstance(x, str) and x.startswith("complex") else None


# memory -----------------------------------------------------------------------------------------------------------
def interleaved(p: ComplexParts) -> TensorNode:
    """The node of a pair as it lies in memory: a last dimension of 2."""
    if p.whole is not None:
        return p.whole()
    kind = to_float(p.re.dtype)
    kind = kind if kind in COMPLEX else float32
    shape = E.broadcast_shape("complex", p.re.shape, p.im.shape)
    return J.stack([M.broadcast_to(cast(x, kind), shape) for x in (p.re, p.im)], axis=-1)


def apart(node: TensorNode) -> ComplexParts:
    """The pair of a node with a last dimension of 2."""
    return ComplexParts(I.getitem(node, (..., 0)), I.getitem(node, (..., 1)), lambda: node)


def as_reals(array: Array, kind: DType | None = None) -> Array:
    """A complex array's memory as reals, with a last dimension of 2; a copy of one with gaps, or of another type."""
    import numpy as np

    to = kind or dtype_of(array.dtype)
    return pairs_of(np.require(array, to.np, ["C", "A"]).reshape(array.shape))


def pairs_of(array: Array) -> Array:
    """A complex array as reals, with a last dimension of 2: its memory, or a copy of one with gaps."""
    if not array.flags.c_contiguous:
        array = array.copy("C")
    pairs: Array = array[..., None].view(array.dtype.char.lower())
    return pairs


def as_complex(array: Array) -> Array:
    """The other way round."""
    if array.strides[-1] != array.itemsize:
        array = array.copy("C")
    numbers: Array = array.view(array.dtype.char.upper())[..., 0]
    return numbers


def memory_of(array: Array, kind: DType | None = None, device: str = "cpu") -> TensorNode:
    """A node with a last dimension of 2 on an array's memory. Raises DTypeError for complex numbers of more than 128 bits."""
    reals = as_reals(array, kind)
    return leaf(buffers.adopt(reals, dtype_of(reals.dtype), device, user_line()))


def complex_memory(data: Any, dtype: Any, device: str) -> TensorNode | None:
    """`memory_of` what NumPy makes of data, if it or the type asked for is complex, else None. Numbers of lists have the default precision."""
    kind = None if dtype is None else complex_type(dtype)
    if captured(data) or (dtype is not None and kind is None):
        return None
    array = as_array(data)
    if kind is None and array.dtype.kind != "c":
        return None
    if kind is None and not (hasattr(data, "dtype") or of_others(data)):
        kind = COMPLEX[default_float()]
    try:
        return memory_of(array, kind, device)
    except TilewrightError as e:
        raise with_line(e) from e.__cause__


def computed(
    name: str, function: Callable[..., Any], operands: Sequence[Any], shapes: Sequence[tuple[int, ...]], kinds: str, key: Any = ()
) -> list[Any]:
    """Results of a function of NumPy arrays: `kinds` has a letter each, c for a pair and r for a real node."""
    sources = [interleaved(x) if isinstance(x, ComplexParts) else x for x in operands]
    paired = [isinstance(x, ComplexParts) for x in operands]
    real = next((s.dtype for s, p in zip(sources, paired, strict=True) if p), None) or to_float(sources[0].dtype)
    if any(s.dtype is float64 for s in sources):
        real = float64

    def call(at: int) -> Callable[..., Array]:
        def result(*arrays: Array) -> Array:
            import numpy as np

            kind = COMPLEX[real].np if "c" in kinds or any(paired) else real.np
            given = [as_complex(a).astype(kind, copy=False) if p else a for a, p in zip(arrays, paired, strict=True)]
            try:
                with np.errstate(all="ignore"):
                    found = function(*given)
            except np.linalg.LinAlgError as e:
                raise L._linalg_error()(f"{name}: {e}") from e
            one = np.asarray(found[at] if isinstance(found, tuple) else found)
            return as_reals(one, COMPLEX[real]) if kinds[at] == "c" else np.ascontiguousarray(one, real.np)

        return result

    out: list[Any] = []
    for i, (shape, kind) in enumerate(zip(shapes, kinds, strict=True)):
        made = host(HostCall(f"complex.{name}", call(i), (key, i)), tuple(sources), (*shape, 2) if kind == "c" else shape, real)
        out.append(apart(made) if kind == "c" else made)
    return out


# operands ---------------------------------------------------------------------------------------------------------
def _part(x: Any, imaginary: bool) -> Any:
    """A part of an operand, or of operands in a list."""
    if isinstance(x, (list, tuple)):
        return [_part(e, imaginary) for e in x]
    if isinstance(x, ComplexParts):
        return x.im if imaginary else x.re
    if isinstance(x, complex):
        return x.imag if imaginary else x.real
    if not imaginary or x is None:
        return x
    return C.zeros_like(x) if isinstance(x, TensorNode) else 0


def _pair(x: Any) -> ComplexParts:
    return x if isinstance(x, ComplexParts) else ComplexParts(_part(x, False), _part(x, True))


def _real(x: Any) -> bool:
    return not isinstance(x, (ComplexParts, complex))


def _zipped(a: Any, b: Any) -> Any:
    if isinstance(a, TensorNode):
        return ComplexParts(a, b)
    made = [_zipped(x, y) for x, y in zip(a, b, strict=True)]
    return tuple(made) if isinstance(a, tuple) else made


def _parts_type(options: dict[str, Any]) -> dict[str, Any]:
    kind = complex_type(options.get("dtype"))
    return options if kind is None else {**options, "dtype": REAL[kind]}


def both(function: Rule, *at: int) -> Rule:
    """A function that does the same to both parts of the operands at these places, also where they are given by name."""
    places = at or (0,)
    named = {n for i, (n, p) in enumerate(signature(function).parameters.items()) if i in places and p.kind is p.POSITIONAL_OR_KEYWORD}

    def rule(*args: Any, **options: Any) -> Any:
        given = _parts_type(options)
        if given is options and options.get("dtype") is not None:
            astype(args[0], options["dtype"])  # raises: real numbers hold no complex ones
        re, im = (
            function(
                *(_part(a, k) if i in places else a for i, a in enumerate(args)),
                **{n: _part(v, k) if n in named else v for n, v in given.items()},
            )
            for k in (False, True)
        )
        return _zipped(re, im)

    return rule


def bilinear(function: Rule, first: int = 0, conjugate: bool = False) -> Rule:
    """A product of operands from place `first` on, the first of them conjugated if asked."""

    def rule(*args: Any, **options: Any) -> Any:
        fixed, operands = args[:first], args[first:]
        terms: list[tuple[int, int, list[Any]]] = [(0, 1, [])]
        for n, x in enumerate(operands):
            if _real(x):
                terms = [(k, s, [*t, x]) for k, s, t in terms]
            else:
                sign = -1 if conjugate and n == 0 else 1
                terms = [e for k, s, t in terms for e in ((k, s, [*t, x.re]), (k + 1, s * sign, [*t, x.im]))]
        parts: list[Any] = [None, None]
        for power, sign, given in terms:
            value = function(*fixed, *given, **options)
            sign = -sign if power % 4 >= 2 else sign
            before = parts[power % 2]
            if before is None:
                parts[power % 2] = value if sign > 0 else E.negative(value)
            else:
                parts[power % 2] = (E.add if sign > 0 else E.subtract)(before, value)
        return ComplexParts(parts[0], parts[1])

    return rule


# elementwise ------------------------------------------------------------------------------------------------------
def _sum(operator: Rule) -> Rule:
    def rule(a: Any, b: Any) -> ComplexParts:
        x, y = _pair(a), _pair(b)
        made = ComplexParts(operator(x.re, y.re), operator(x.im, y.im))
        if x.whole is not None and y.whole is not None and x.re.dtype is y.re.dtype:
            return replace(made, whole=lambda: operator(*_lined_up(interleaved(x), interleaved(y))))
        return made

    return rule


def _lined_up(x: TensorNode, y: TensorNode) -> list[TensorNode]:
    """Two nodes with a last dimension of 2, of one rank."""
    rank = max(len(x.shape), len(y.shape))
    return [M.reshape(n, (*[1] * (rank - len(n.shape)), *n.shape)) for n in (x, y)]


def multiply(a: Any, b: Any) -> ComplexParts:
    if _real(b):
        a, b = b, a
    if _real(a):
        y = _pair(b)
        made = ComplexParts(E.multiply(a, y.re), E.multiply(a, y.im))
        if y.whole is not None and made.re.dtype is y.re.dtype:
            wide = M.expand_dims(a, axis=-1) if isinstance(a, TensorNode) else a
            return replace(made, whole=lambda: E.multiply(wide, interleaved(y)))
        return made
    x, y = _pair(a), _pair(b)
    if y.whole is None:
        x, y = y, x
    if y.whole is not None and isinstance(x.re, TensorNode) and x.re.dtype is y.re.dtype:
        return replace(_multiplied(x, y), whole=lambda: _multiplied_whole(x, interleaved(y)))
    return _multiplied(x, y)


def _multiplied_whole(x: ComplexParts, y: TensorNode) -> TensorNode:
    """re·(y.re, y.im) + (−im, im)·(y.im, y.re)."""
    re, im = M.expand_dims(x.re, axis=-1), M.expand_dims(x.im, axis=-1)
    first = E.equal(C.arange(2), 0)
    return E.add(E.multiply(re, y), E.multiply(E.where(first, E.negative(im), im), M.flip(y, axis=-1)))


def _multiplied(x: ComplexParts, y: ComplexParts) -> ComplexParts:
    re = E.subtract(E.multiply(x.re, y.re), E.multiply(x.im, y.im))
    return ComplexParts(re, E.add(E.multiply(x.re, y.im), E.multiply(x.im, y.re)))


def divide(a: Any, b: Any) -> ComplexParts:
    """By the larger part of the divisor first, so that nothing overflows (R. L. Smith, 1962)."""
    if _real(b) or not isinstance(_part(b, False), TensorNode):
        if isinstance(b, complex):
            return multiply(a, 1 / b if b else complex(float("nan"), float("nan")))
        return ComplexParts(E.divide(_part(a, False), b), E.divide(_part(a, True), b))
    x, y = _pair(a), _pair(b)
    turned = E.less(E.absolute(y.re), E.absolute(y.im))
    large, small = E.where(turned, y.im, y.re), E.where(turned, y.re, y.im)
    ratio = E.divide(small, E.where(E.equal(large, 0), 1.0, large))
    scale = E.add(large, E.multiply(small, ratio))
    re = E.where(turned, E.add(E.multiply(ratio, x.re), x.im), E.add(E.multiply(ratio, x.im), x.re))
    im = E.where(turned, E.subtract(E.multiply(ratio, x.im), x.re), E.subtract(x.im, E.multiply(ratio, x.re)))
    return ComplexParts(E.divide(re, scale), E.divide(im, scale))


def exp(z: ComplexParts) -> ComplexParts:
    size = E.exp(z.re)
    re = E.where(E.logical_and(E.isinf(size), E.logical_not(E.isfinite(z.im))), size, _times(size, E.cos(z.im)))
    return ComplexParts(re, E.where(E.equal(z.im, 0), z.im, _times(size, E.sin(z.im))))


def _times(a: TensorNode, b: TensorNode) -> TensorNode:
    """a·b, where 0 times anything is 0."""
    zero = E.logical_or(E.equal(a, 0), E.equal(b, 0))
    return E.where(zero, E.multiply(E.copysign(E.where(zero, 0.0, a), a), E.copysign(E.where(zero, 1.0, b), b)), E.multiply(a, b))


def log(z: ComplexParts) -> ComplexParts:
    """Near |z| = 1 the logarithm of |z|² − 1 + 1, which loses no digits."""
    a, b = E.absolute(z.re), E.absolute(z.im)
    most, least = E.maximum(a, b), E.minimum(a, b)
    size = E.hypot(z.re, z.im)
    near = E.multiply(E.log1p(E.add(E.multiply(E.subtract(most, 1), E.add(most, 1)), E.multiply(least, least))), 0.5)
    close = E.logical_and(E.less(size, 1.5), E.greater(size, 0.7))
    return ComplexParts(E.where(close, near, E.log(size)), angle(z))


def sqrt(z: ComplexParts) -> ComplexParts:
    size = E.sqrt(E.add(E.multiply(E.absolute(z.re), 0.5), E.multiply(E.hypot(z.re, z.im), 0.5)))
    zero = E.equal(size, 0)
    other = E.where(zero, 0.0, E.divide(E.absolute(z.im), E.multiply(E.where(zero, 1.0, size), 2)))
    right = E.greater_equal(z.re, 0)
    far = E.isinf(z.im)
    re = E.where(far, float("inf"), E.where(right, size, other))
    return ComplexParts(re, E.where(far, z.im, E.copysign(E.where(right, other, size), z.im)))


def absolute(z: ComplexParts) -> TensorNode:
    return E.hypot(z.re, z.im)


def real(x: TensorNode, /) -> TensorNode:
    """The real part."""
    return E.positive(x)


def imag(x: TensorNode, /) -> TensorNode:
    """The imaginary part: zeros for real numbers."""
    return C.zeros_like(x)


def conj(x: TensorNode, /) -> TensorNode:
    """The complex conjugate: itself for real numbers."""
    return E.positive(x)


def angle(x: Any, /) -> TensorNode:
    """The argument, in (−π, π]: 0 or π for real numbers."""
    z = x if isinstance(x, ComplexParts) else _pair(E.to_floats(x))
    return E.atan2(z.im, z.re)


def _wave(first: Rule, second: Rule, third: Rule, fourth: Rule, sign: int = 1) -> Rule:
    """first(re)·second(im) ± i·third(re)·fourth(im)."""

    def rule(z: ComplexParts) -> ComplexParts:
        im = _times(third(z.re), fourth(z.im))
        return ComplexParts(_times(first(z.re), second(z.im)), im if sign > 0 else E.negative(im))

    return rule


def _sign(z: ComplexParts) -> ComplexParts:
    size = absolute(z)
    zero = E.equal(size, 0)
    size = E.where(zero, 1.0, size)
    return ComplexParts(E.divide(z.re, size), E.divide(z.im, size))


def _scaled_log(base: float) -> Rule:
    return lambda z: multiply(1 / ln(base), log(z))


def power(a: Any, b: Any) -> Any:
    """Small whole powers by products, others by NumPy."""
    if type(b) in (int, float) and b % 1 == 0 and 0 < abs(b) <= 64:
        if b < 0:
            return divide(1.0, power(a, -b))
        half = power(a, b // 2) if b > 1 else None
        square = a if half is None else multiply(half, half)
        return multiply(square, a) if half is not None and b % 2 else square
    return _numpy("power")(a, b)


def _numpy(name: str) -> Rule:
    """NumPy's elementwise function of that name."""

    def rule(*args: Any) -> Any:
        import numpy as np

        like = next(a for a in args if isinstance(a, (ComplexParts, TensorNode)))
        kind = to_float((like.re if isinstance(like, ComplexParts) else like).dtype)
        given = [
            a
            if isinstance(a, (ComplexParts, TensorNode))
            else ComplexParts(C.full((), _part(a, False), dtype=kind), C.full((), _part(a, True), dtype=kind))
            for a in args
        ]
        shape = E.broadcast_shape(name, *(g.shape for g in given))
        return computed(name, getattr(np, name), given, [shape], "c")[0]

    return rule


def _equal(a: Any, b: Any) -> TensorNode:
    x, y = _pair(a), _pair(b)
    return E.logical_and(E.equal(x.re, y.re), E.equal(x.im, y.im))


def _either(function: Rule, join: Rule = E.logical_or) -> Rule:
    return lambda z: join(function(z.re), function(z.im))


def truth(x: Any) -> Any:
    return E.logical_or(E.not_equal(x.re, 0), E.not_equal(x.im, 0)) if isinstance(x, ComplexParts) else x


def of_truth(function: Rule) -> Rule:
    """A function that only asks which elements are not 0."""
    return lambda *args, **options: function(*map(truth, args), **options)


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> TensorNode:
    away = absolute(_sum(E.subtract)(a, b))
    size = absolute(b) if isinstance(b, ComplexParts) else E.absolute(b) if isinstance(b, TensorNode) else abs(b)
    close = E.less_equal(away, E.add(E.multiply(size, rtol), atol))
    if equal_nan:
        close = E.logical_or(close, E.logical_and(*(_either(E.isnan)(_pair(v)) for v in (a, b))))
    return E.logical_or(close, _equal(a, b))


# types, creation --------------------------------------------------------------------------------------------------
def astype(x: Any, dtype: Any) -> Any:
    """Raises DTypeError for complex numbers as real ones."""
    to = dtype_of(dtype)
    if to.kind == "c":
        return ComplexParts(rounded(_part(x, False), REAL[to]), rounded(_part(x, True), REAL[to]))
    if to.kind == "b":
        return truth(x)
    raise DTypeError(f"complex numbers as {to}: take real(x), imag(x) or abs(x), which are")


def filled(function: Rule, at: int) -> Rule:
    """A function that makes an array of the number at a place, for a complex number or a complex type."""
    parameters = signature(function)

    def rule(*args: Any, **options: Any) -> Any:
        bound = parameters.bind(*args, **options)
        args, options = bound.args, bound.kwargs
        given = _parts_type(options)
        if given.get("dtype") is None and isinstance(args[0], TensorNode):
            given["dtype"] = default_float()
        like = [a.re if isinstance(a, ComplexParts) and i != at else a for i, a in enumerate(args)]
        if options.get("dtype") is not None and given is options:  # a real type
            return function(*like, **options)
        re, im = (function(*(_part(a, k) if i == at else a for i, a in enumerate(like)), **given) for k in (False, True))
        return ComplexParts(re, im)

    return rule


def like_real(function: Rule) -> Rule:
    """A function that makes an array of real numbers, for a complex type or in the shape of a complex array."""

    def rule(*args: Any, **options: Any) -> Any:
        given = _parts_type(options)
        made = function(*(a.re if isinstance(a, ComplexParts) else a for a in args), **given)
        return made if options.get("dtype") is not None and given is options else ComplexParts(made, C.zeros_like(made))

    return rule


# reductions, products, decompositions -----------------------------------------------------------------------------
def var(z: ComplexParts, *args: Any, **options: Any) -> TensorNode:
    return E.add(R.var(z.re, *args, **options), R.var(z.im, *args, **options))


def _product(name: str, function: Rule) -> Rule:
    """A product of elements, by NumPy."""

    def rule(x: Any, *args: Any, **options: Any) -> Any:
        import numpy as np

        to = complex_type(options.get("dtype"))
        z, given = (_pair(x) if to is None else astype(x, to)), _parts_type(options)
        template = function(z.re, *args, **given)
        initial = given.pop("include_initial", False)
        given.pop("dtype", None)

        def call(a: Array) -> Any:
            axis = given.get("axis", args[0] if args else None)
            if name == "prod":
                return np.prod(a, axis, keepdims=given.get("keepdims", args[1] if len(args) > 1 else False))
            out = np.cumprod(a, axis)
            if initial:
                lead = list(out.shape)
                lead[axis or 0] = 1
                out = np.concatenate([np.ones(lead, out.dtype), out], axis or 0)
            return out

        return computed(name, call, [z], [template.shape], "c", (args, tuple(sorted(given.items())), initial))[0]

    return rule


def _decomposed(function: Rule, kinds: str, name: str = "") -> Rule:
    """A function of `numpy.linalg`: its results' shapes are those of the real function."""

    def rule(*args: Any, **options: Any) -> Any:
        import numpy as np

        parts = [_part(a, False) if isinstance(a, (ComplexParts, TensorNode)) else a for a in args]
        template = function(*parts, **options)
        found = template if isinstance(template, tuple) else (template,)
        call = getattr(np.linalg, name or function.__name__)
        given = [a if isinstance(a, ComplexParts) else ComplexParts(E.to_floats(a), C.zeros_like(E.to_floats(a))) for a in args]
        made = computed(
            function.__name__, lambda *arrays: call(*arrays, **options), given, [t.shape for t in found], kinds,
            tuple(sorted(options.items(), key=str)),
        )  # fmt: skip
        return type(template)(*made) if isinstance(template, tuple) else made[0]

    return rule


def matrix_power(z: ComplexParts, n: int) -> ComplexParts:
    if n < 0:
        return matrix_power(_decomposed(L.inv, "c")(z), -n)
    if n == 0:
        one = L.matrix_power(z.re, 0)
        return ComplexParts(one, C.zeros_like(one))
    half = matrix_power(z, n // 2) if n > 1 else None
    product = bilinear(L.matmul)
    square = z if half is None else product(half, half)
    out: ComplexParts = product(square, z) if half is not None and n % 2 else square
    return out


def matrix_norm(z: ComplexParts, *, keepdims: bool = False, ord: Any = "fro") -> TensorNode:
    if ord in ("fro", None, 1, -1, float("inf"), float("-inf")):
        return L.matrix_norm(absolute(z), keepdims=keepdims, ord=ord)
    found: TensorNode = _decomposed(L.matrix_norm, "r")(z, keepdims=keepdims, ord=ord)
    return found


def matrix_rank(z: ComplexParts, *, rtol: Any = None) -> TensorNode:
    """How many singular values are above rtol times the largest: those of the diagonal matrix of them."""
    values = _decomposed(L.svdvals, "r")(z)
    k = values.shape[-1]
    diagonal = E.multiply(M.expand_dims(values, axis=-1), C.eye(k, dtype=values.dtype))
    factor = max(z.shape[-2:]) * values.dtype.eps if rtol is None else rtol
    return L.matrix_rank(diagonal, rtol=factor)


def _diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    return both(J.diff, 0, 3, 4)(x, n, axis, prepend, append)


def _setitem(x: Any, key: Any, value: Any) -> Any:
    if isinstance(x, TensorNode):
        raise DTypeError(f"complex numbers in an array of {x.dtype}: write their real part, or make the array complex with astype")
    return both(I.setitem, 0, 2)(x, key, value)


def _unique(function: Rule) -> Rule:
    """Elements in the order of their real, then imaginary parts, computed at once."""

    def rule(z: ComplexParts) -> Any:
        import numpy as np

        array = as_complex(values(interleaved(z)))
        found = np.unique(array, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
        made: dict[str, Any] = {"values": apart(memory_of(found[0]))}
        made |= {n: from_numpy(np.ascontiguousarray(a)) for n, a in zip(("indices", "inverse_indices", "counts"), found[1:], strict=True)}
        made["inverse_indices"] = M.reshape(made["inverse_indices"], array.shape)
        kind: Any = {S.unique_all: S.UniqueAll, S.unique_counts: S.UniqueCounts, S.unique_inverse: S.UniqueInverse}.get(function)
        return made["values"] if kind is None else kind(**{n: made[n] for n in kind._fields})

    return rule


RULES: dict[Rule, Rule] = {
    E.add: _sum(E.add), E.subtract: _sum(E.subtract), E.multiply: multiply, E.divide: divide, E.power: power,
    E.negative: lambda z: multiply(-1.0, z), E.positive: lambda z: z, E.absolute: absolute, E.sign: _sign,
    E.square: lambda z: multiply(z, z), E.reciprocal: lambda z: divide(1.0, z), E.exp: exp, E.log: log, E.sqrt: sqrt,
    E.log2: _scaled_log(2.0), E.log10: _scaled_log(10.0), E.round: both(E.round),
    E.sin: _wave(E.sin, E.cosh, E.cos, E.sinh), E.cos: _wave(E.cos, E.cosh, E.sin, E.sinh, -1),
    E.sinh: _wave(E.sinh, E.cos, E.cosh, E.sin), E.cosh: _wave(E.cosh, E.cos, E.sinh, E.sin),
    **{getattr(E, name): _numpy(numpy) for name, numpy in {
        "tan": "tan", "tanh": "tanh", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
        "atanh": "arctanh", "expm1": "expm1", "log1p": "log1p", "exp2": "exp2",
    }.items()},
    E.equal: _equal, E.not_equal: lambda a, b: E.logical_not(_equal(a, b)), E.where: both(E.where, 1, 2), E.isclose: isclose,
    E.isnan: _either(E.isnan), E.isinf: _either(E.isinf), E.isfinite: _either(E.isfinite, E.logical_and), E.astype: astype,
    real: lambda z: z.re, imag: lambda z: z.im, conj: lambda z: ComplexParts(z.re, E.negative(z.im)), angle: angle,
    **{f: of_truth(f) for f in (E.logical_and, E.logical_or, E.logical_xor, E.logical_not, R.any, R.all, R.count_nonzero, S.nonzero)},
    **{f: _unique(f) for f in (S.unique_all, S.unique_counts, S.unique_inverse, S.unique_values)},
    R.sum: both(R.sum), R.mean: both(R.mean), R.var: var, R.std: lambda *a, **k: E.sqrt(var(*a, **k)), R.prod: _product("prod", R.prod),
    R.cumulative_sum: both(R.cumulative_sum), R.cumsum: both(R.cumsum), **{f: _product("cumprod", f) for f in (R.cumulative_prod, R.cumprod)},
    **{f: both(f) for f in (
        J.concat, J.stack, J.roll, J.tile, J.repeat, J.diag,
        C.tril, C.triu, I.getitem, I.take, I.take_along_axis, L.trace,
    )},
    J.pad: both(J.pad, 0, 2, 4), J.diff: _diff, I.setitem: _setitem,
    I.index_put: both(I.index_put, 0, 2), I.scatter_add: both(I.scatter_add, 0, 2),
    C.broadcast_arrays: both(C.broadcast_arrays, *range(32)), C.meshgrid: both(C.meshgrid, *range(32)),
    C.full: filled(C.full, 1), C.full_like: filled(C.full_like, 1), C.linspace: both(C.linspace, 0, 1),
    **{f: like_real(f) for f in (C.zeros, C.ones, C.empty, C.zeros_like, C.ones_like, C.eye, C.arange)},
    L.matmul: bilinear(L.matmul), L.tensordot: bilinear(L.tensordot), L.outer: bilinear(L.outer), L.cross: bilinear(L.cross),
    L.vecdot: bilinear(L.vecdot, 0, True), einsum: bilinear(einsum, 1),
    L.inv: _decomposed(L.inv, "c"), L.det: _decomposed(L.det, "c"), L.cholesky: _decomposed(L.cholesky, "c"),
    L.solve: _decomposed(L.solve, "c"), L.pinv: _decomposed(L.pinv, "c"), L.eigh: _decomposed(L.eigh, "rc"),
    L.eigvalsh: _decomposed(L.eigvalsh, "r"), L.qr: _decomposed(L.qr, "cc"), L.svd: _decomposed(L.svd, "crc"),
    L.svdvals: _decomposed(L.svdvals, "r"), L.slogdet: _decomposed(L.slogdet, "cr"), L.matrix_power: matrix_power,
    L.matrix_norm: matrix_norm, L.matrix_rank: matrix_rank, L.vector_norm: lambda z, **k: L.vector_norm(absolute(z), **k),
}  # fmt: skip
"""By function of real nodes, the same for pairs."""

_ORDERED = (
    "less",
    "greater",
    "max",
    "min",
    "sort",
    "clip",
    "floor",
    "ceil",
    "trunc",
    "remainder",
    "sign",
    "search",
    "topk",
    "hypot",
    "median",
)


def complex_rule(function: Rule) -> Rule:
    """A function for pairs. Raises DTypeError where complex numbers have no such thing."""
    found = RULES.get(function)
    if found is not None:
        return found
    if function.__module__.rpartition(".")[2] in ("movement", "moved"):
        return both(function)
    name = function.__name__
    if any(w in name for w in _ORDERED):
        raise DTypeError(f"{name} of complex numbers, which have no order: take abs(x), real(x) or imag(x) first")
    raise DTypeError(f"{name} of complex numbers: there is no such function; real(x) and imag(x) are real arrays")


__all__ = [
    "COMPLEX",
    "REAL",
    "ComplexParts",
    "UsageError",
    "angle",
    "apart",
    "complex_rule",
    "conj",
    "imag",
    "interleaved",
    "is_complex",
    "real",
]
