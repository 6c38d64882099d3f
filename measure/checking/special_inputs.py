"""Inputs that random ones never are: zeros of both signs, subnormal numbers, infinities, NaN, the largest magnitudes,
the ends of integer ranges.

One NaN in a row makes all that is summed over it NaN, and one huge number hides every other's error. So where a
special value may be follows from the remainders, by PERIOD, of an element's first and last index: what hides others
is where both are a certain one, and so meets an eighth of a matrix's rows and columns and leaves the others alone;
zeros, which hide nothing, are whole rows and columns, and tiny numbers some rows. A row has infinities of one sign,
or NaN (a column, in every other input: a right operand is summed over its columns). The rest is random as always."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import inputs

if TYPE_CHECKING:
    import numpy as np

    from ...ir.buffer import Buffer
    from ...ir.dtypes import DType
    from ...ir.kernel import Kernel

    Array = np.ndarray[Any, Any]

PERIOD = 8
_WILD, _TINY, _HUGE, _ZERO = 2, 3, 4, 5
"""Remainders of what is not finite, tiny, huge, and zero."""
_TINY_ROWS, _TINY_ELEMENTS = 8, 4096
"""So many rows are tiny; and elements up to so many, where there are no rows. Processors take a hundred cycles or
more for an operation on subnormal numbers."""
_SHARE, _FEW = 0.25, 24
"""Of the places for values that hide others so many are taken: a share, and at least a number."""
_LARGEST = {"float64": 1023, "float32": 127, "bfloat16": 127, "float16": 15, "float8_e4m3": 8, "float8_e5m2": 15}
_SMALLEST = {"float64": -1074, "float32": -149, "bfloat16": -133, "float16": -24, "float8_e4m3": -9, "float8_e5m2": -16}
"""Exponents of the largest and of the smallest subnormal power of two."""
_LARGEST_NUMBER = {"float8_e4m3": 448.0}
_BITS = {"float64": 52, "float32": 23, "bfloat16": 7, "float16": 10, "float8_e4m3": 3, "float8_e5m2": 2}


def generate(
    kernel: Kernel, vars: Mapping[str, int], seed: int, wild: bool = True, subnormal: bool = True, huge: bool = True
) -> dict[str, Array]:
    """Arrays as `inputs.generate` makes them, with special values. Without `wild`, all floats are finite; without
    `subnormal`, none is subnormal or tiny; without `huge`, none is among the largest. Of an input whose range is stated, the special values are its ends, and 0 where
    that is in it."""
    import numpy as np

    out = inputs.generate(kernel, vars, seed)
    for position, b in enumerate(kernel.inputs):
        rng = np.random.default_rng([seed, position, 1])
        x = out[b.name]
        if not x.size or b.dtype.kind == "b":
            continue
        first, last = _ends(x.shape)
        if b.dtype.is_float and b.range is not None:
            out[b.name] = _in_range(x, b, first, last)
        elif b.dtype.is_float:
            out[b.name] = _floats(x, b.dtype, rng, (first, last) if position % 2 == 0 else (last, first), (wild, subnormal, huge))
        else:
            _limits(x, b, first, last)
    return out


def _ends(dims: tuple[int, ...]) -> tuple[Array, Array]:
    """The first index and the last of every element, as arrays that broadcast: of dimensions that have more than one
    element, the same where there is one such."""
    import numpy as np

    long = [d for d, n in enumerate(dims) if n > 1] or [0]
    made = {d: np.arange(dims[d] if dims else 1).reshape([-1 if i == d else 1 for i in range(len(dims))]) for d in {long[0], long[-1]}}
    return made[long[0]], made[long[-1]]


def _is(index: Array, remainder: int) -> Array:
    """Where an index (of `_ends`: 0, 1, 2, …) has that remainder (in a dimension that is too short for it, that by its length)."""
    import numpy as np

    period = max(1, min(index.size, PERIOD))
    there = np.zeros(index.size, bool)
    there[remainder % period :: period] = True  # dividing each index takes ten times as long
    return there.reshape(index.shape)


def _floats(random: Array, dtype: DType, rng: np.random.Generator, ends: tuple[Array, Array], kinds_of: tuple[bool, bool, bool]) -> Array:
    """`kinds_of`: whether there are numbers that are not finite, tiny ones, and the largest."""
    import numpy as np

    wild, subnormal, huge = kinds_of
    x, (main, other) = np.array(random, order="C"), ends
    few = any(e.size < PERIOD for e in ends)
    row, column = main // PERIOD, other // PERIOD

    def put(places: Array, made: Callable[[Array, Array], Array]) -> None:
        """Replace some elements alone: of (what they are, in float64; their rows). Most of an array is never touched."""
        x[places] = made(x[places].astype(np.float64), np.broadcast_to(row, x.shape)[places]).astype(dtype.np)

    with np.errstate(all="ignore"):
        if subnormal:
            long = main if main.size >= PERIOD else other
            tiny = _is(long, _TINY) & (long < (_TINY_ROWS * PERIOD if x.size > long.size else _TINY_ELEMENTS))
            put(np.broadcast_to(tiny, x.shape), lambda v, _: v * 2.0 ** (_SMALLEST[dtype.name] + _BITS[dtype.name] // 2))
        zero = _is(main, _ZERO) if few else _is(main, _ZERO) | _is(other, _ZERO)
        put(_drawn(zero, rng, x.shape, 0.9), lambda v, _: np.copysign(0.0, v))
        if huge:
            put(_some(_is(main, _HUGE) & _is(other, _HUGE), main, rng, x.shape), lambda v, r: _huge(v, dtype, r))
        if wild:
            places = _some(_is(main, _WILD) & _is(other, _WILD), main, rng, x.shape)
            also = np.broadcast_to(column, x.shape)[places] if main.size < 3 * PERIOD else 0
            put(places, lambda _, r: np.array([np.nan, np.inf, -np.inf])[(r + also) % 3])
    return x


def _in_range(x: Array, b: Buffer, first: Array, last: Array) -> Array:
    """The ends of a float's range in some rows and columns, and zeros of both signs where it has them."""
    import numpy as np

    assert b.range is not None
    lo, hi = b.range
    made = x.copy()
    for remainder, values in ((_TINY, (lo, lo)), (_HUGE, (hi, hi)), (_ZERO, (0.0, -0.0))):
        if lo <= values[0] <= hi:
            signs = np.where((first + last) % 2 == 0, *values).astype(b.dtype.np)
            np.copyto(made, signs, where=np.broadcast_to(_is(first, remainder) | _is(last, remainder), x.shape))
    return inputs.inside(made, b)


def _some(places: Array, main: Array, rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
    """A share of the places, all where they are few; and those of the first three rows that have any, so that whoever looks at no
    others (`ir.evaluation.sampling.FIRST`) sees each kind."""
    import numpy as np

    count = int(np.broadcast_to(places, dims).sum())
    first = np.broadcast_to(places & (main < 3 * PERIOD), dims)
    return _drawn(places, rng, dims, max(_SHARE, _FEW / max(1, count))) | first


def _drawn(places: Array, rng: np.random.Generator, dims: tuple[int, ...], share: float) -> Array:
    """Each of the places with a probability."""
    import numpy as np

    there = np.array(np.broadcast_to(places, dims))
    there[there] = rng.random(int(there.sum())) < share
    return there


def _huge(x: Array, dtype: DType, row: Array) -> Array:
    """Numbers of x's signs: the largest in some rows, in others so large that sums of them are finite."""
    import numpy as np

    top = _LARGEST[dtype.name]
    sizes = np.ldexp([2.0 - 2.0 ** -_BITS[dtype.name], 1.25, 1.75, 1.75], [top, top - 1, top - top // 6, top // 2])
    # float8_e4m3 has NaN where its largest number would be
    return np.asarray(np.copysign(np.minimum(sizes, _LARGEST_NUMBER.get(dtype.name, np.inf))[row % 4], x))


def _limits(x: Array, b: Buffer, first: Array, last: Array) -> None:
    """The ends of an integer's range, in some rows and columns: products and sums of those are the largest."""
    import numpy as np

    info = np.iinfo(x.dtype)
    lo, hi = b.whole_range or ((-128, 127) if b.dtype.kind == "i" else (0, 255))
    for remainder, end in ((_WILD, max(lo, info.min)), (_HUGE, min(hi, info.max))):
        np.copyto(x, end, where=np.broadcast_to(_is(first, remainder) | _is(last, remainder), x.shape))
