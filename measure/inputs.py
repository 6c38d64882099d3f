"""Test data: the same kernel, values of its symbols and seed always give the same inputs.

`generate` makes random inputs. `generate_special` adds what random ones never are: zeros of both signs, subnormal numbers, infinities, NaN,
the largest magnitudes, the ends of integer ranges. One NaN in a row makes all that is summed over it NaN, and one huge number hides every
other's error. So the place of a special value follows from the remainders, by PERIOD, of an element's first and last index. Values
that hide others are where both remainders are a certain one: they meet an eighth of a matrix's rows and columns and leave the others
alone. Zeros, which hide nothing, are whole rows and columns; tiny numbers are some rows. A row has infinities of one sign, or NaN (a
column, in every other input: a right operand is summed over its columns). The rest is random as always."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any

from ..ir.dtypes import FORMATS
from ..ir.errors import MeasureError
from ..ir.index import evaluate
from ..ir.node import Node
from ..targets.free_memory import require_room

if TYPE_CHECKING:
    import numpy as np

    from ..ir.buffer import Buffer
    from ..ir.dtypes import DType
    from ..ir.kernel import Kernel

    Array = np.ndarray[Any, Any]


SMALL = 4
"""Magnitude of whole-number test data for floats: products of two are exact in every float type and sums stay far below 2²⁴."""

_REFERENCE = 16
"""Bytes of an output's element that say what is right: the value and its bound."""


def shape(buffer: Buffer, kernel: Kernel, vars: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a parameter, with the kernel's symbols replaced. Raises MeasureError where one has no value."""
    env = {}
    for s in kernel.symbols:
        if s.arg.name not in vars:
            raise MeasureError(f"kernel {kernel.name} has the symbolic extent {s.arg.name}: give it a value, vars={{'{s.arg.name}': …}}")
        env[s] = vars[s.arg.name]
    return tuple(evaluate(d, env) if isinstance(d, Node) else d for d in buffer.shape)


def generate(kernel: Kernel, vars: Mapping[str, int], seed: int, whole: bool = False) -> dict[str, np.ndarray[Any, Any]]:
    """C-contiguous arrays by parameter name: uniform over the stated range, else standard normal for floats and uniform over
    [-128, 127] or [0, 255], as far as the type holds them, for integers. With `whole`, floats are whole numbers, in [-4, 4] or of
    their range (`whole_limits`), on which sums of products are exact in any order."""
    import numpy as np

    require_operands(kernel, vars, measured=False)
    out: dict[str, np.ndarray[Any, Any]] = {}
    for position, b in enumerate(kernel.inputs):
        rng = np.random.default_rng([seed, position])
        dims = shape(b, kernel, vars)
        made: np.ndarray[Any, Any]
        if b.dtype.is_float and whole and (ends := whole_limits(b)) is not None:
            made = rng.integers(ends[0], ends[1], dims, dtype=np.int8 if b.range is None else np.int64, endpoint=True)
        elif b.dtype.is_float and b.range is not None:
            made = rng.uniform(b.range[0], b.range[1], dims)
        elif b.dtype.is_float:
            made = rng.standard_normal(dims, dtype=np.float64 if b.dtype.size == 8 else np.float32)
        elif b.dtype.kind == "b":
            made = rng.integers(0, 2, dims, dtype=np.uint8)
        else:
            lo, hi = b.whole_range or ((-128, 127) if b.dtype.kind == "i" else (0, 255))
            made = rng.integers(lo, hi, dims, dtype=b.dtype.np, endpoint=True)
            if b.regular:  # steps between neighbours are equal, but for the first ones, which are one longer
                step, longer = divmod(hi - lo, max(1, dims[-1] - 1))
                made[...] = lo + np.arange(dims[-1]) * step + np.minimum(np.arange(dims[-1]), longer)
            if b.pattern:
                made[...] = lo + _columns(dims, list(out.values())) % (hi - lo + 1)
        out[b.name] = inside(np.asarray(made, b.dtype.np, order="C"), b)
        if b.ascending:
            _ascend(out[b.name], b)
    return out


def _columns(dims: tuple[int, ...], before: list[Array]) -> Array:
    """Columns of which each of a row is one more than the one before, and each row begins one further than the one before. Where rows
    begin, another input says, if it comes first."""
    import numpy as np

    places = np.arange(dims[-1])
    begins = next((x for x in before if x.ndim == 1 and x.dtype.kind in "iu" and x.size > 1 and x[0] == 0 and x[-1] == dims[-1]), None)
    if begins is None:
        return places
    row = np.repeat(np.arange(begins.size - 1), np.diff(begins))
    return row + places - begins[row]


def _ascend(x: Array, b: Buffer) -> None:
    """Sort each row, and let it begin and end with the ends of the stated range: what begins where the one before ends covers all then."""
    x.sort(axis=-1)
    if b.whole_range is not None and x.shape[-1] > 1:
        x[..., 0], x[..., -1] = b.whole_range


def require_operands(kernel: Kernel, vars: Mapping[str, int], measured: bool = True) -> None:
    """Raise NoRoom where memory cannot hold the arguments; where they are `measured`, with what that takes beside them: inputs that
    can be read only, outputs as they were when they were verified, and of each output the right values and their bounds in float64."""
    sizes = [(prod(shape(b, kernel, vars)), b) for b in kernel.buffers]
    given = {b.name for b in kernel.inputs}
    once = sum(n * b.dtype.size for n, b in sizes)
    beside = sum(n * (b.dtype.size if b.name in given else b.dtype.size + _REFERENCE) for n, b in sizes)
    about = ", ".join(f"{k}={v}" for k, v in vars.items())
    require_room(once + measured * beside, f"{'measuring ' * measured}{kernel.name}{about and f' at {about}'}")


def whole_limits(b: Buffer) -> tuple[int, int] | None:
    """The least and the largest whole number that a float input has in tests on whole numbers: those of [-4, 4] in its
    range, else the nine of it that are nearest to 0. None where its range has none."""
    if b.range is None:
        return -SMALL, SMALL
    lo, hi = math.ceil(b.range[0]), math.floor(b.range[1])
    if lo > hi:
        return None
    if lo <= SMALL and hi >= -SMALL:
        return max(lo, -SMALL), min(hi, SMALL)
    return (lo, min(hi, lo + 2 * SMALL)) if lo > 0 else (max(lo, hi - 2 * SMALL), hi)


def inside(x: np.ndarray[Any, Any], b: Buffer) -> np.ndarray[Any, Any]:
    """`x` with elements that rounding carried out of a float's stated range moved back, to one that is inside."""
    import numpy as np

    if b.range is None or not b.dtype.is_float or not x.size:
        return x
    wide = x.astype(np.float64)
    out = (wide < b.range[0]) | (wide > b.range[1])
    if out.any():
        good = x[~out]
        middle = np.float64(0.5 * b.range[0] + 0.5 * b.range[1]).astype(b.dtype.np)
        x[out] = good.reshape(-1)[0] if good.size else middle
    return x


PERIOD = 8
_WILD, _TINY, _HUGE, _ZERO = 2, 3, 4, 5
"""Remainders of what is not finite, tiny, huge, and zero."""
_TINY_ROWS, _TINY_ELEMENTS = 8, 4096
"""So many rows are tiny; and elements up to so many, where there are no rows. Processors take a hundred cycles or
more for an operation on subnormal numbers."""
_SHARE, _FEW = 0.25, 24
"""Of the places for values that hide others so many are taken: a share, and at least a number."""


def generate_special(
    kernel: Kernel, vars: Mapping[str, int], seed: int, wild: bool = True, subnormal: bool = True, huge: bool = True
) -> dict[str, Array]:
    """Arrays as `inputs.generate` makes them, with special values. Without `wild`, all floats are finite; without
    `subnormal`, none is subnormal or tiny; without `huge`, none is among the largest. Of an input whose range is stated, the special values are its ends, and 0 where
    that is in it."""
    import numpy as np

    out = generate(kernel, vars, seed)
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
        if b.ascending:
            if seed % 2 and b.whole_range is not None:  # all lies between two of them
                x[...] = np.where(np.arange(x.shape[-1]) * 3 < x.shape[-1], *b.whole_range)
            _ascend(x, b)
    return out


def _ends(dims: tuple[int, ...]) -> tuple[Array, Array]:
    """The first index and the last of every element, as arrays that broadcast: of dimensions that have more than one
    element, the same where there is one such."""
    import numpy as np

    long = [d for d, n in enumerate(dims) if n > 1] or [0]
    made = {d: np.arange(dims[d] if dims else 1).reshape([-1 if i == d else 1 for i in range(len(dims))]) for d in {long[0], long[-1]}}
    return made[long[0]], made[long[-1]]


def _is(index: Array, remainder: int) -> Array:
    """Whether an index (of `_ends`: 0, 1, 2, …) has that remainder (in a dimension that is too short for it, that by its length)."""
    import numpy as np

    period = max(1, min(index.size, PERIOD))
    there = np.zeros(index.size, bool)
    there[remainder % period :: period] = True  # dividing each index takes ten times as long
    return there.reshape(index.shape)


def _floats(random: Array, dtype: DType, rng: np.random.Generator, ends: tuple[Array, Array], kinds_of: tuple[bool, bool, bool]) -> Array:
    """`kinds_of`: whether there are numbers that are not finite, tiny ones, and the largest."""
    import numpy as np

    wild, subnormal, huge = kinds_of
    f = FORMATS[dtype.name]
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
            put(np.broadcast_to(tiny, x.shape), lambda v, _: v * (f.least * 2.0 ** (f.mantissa // 2)))
        zero = _is(main, _ZERO) if few else _is(main, _ZERO) | _is(other, _ZERO)
        put(_drawn(zero, rng, x.shape, 0.9), lambda v, _: np.copysign(0.0, v))
        if huge:
            put(_sample_of_places(_is(main, _HUGE) & _is(other, _HUGE), main, rng, x.shape), lambda v, r: _huge(v, dtype, r))
        if wild:
            places = _sample_of_places(_is(main, _WILD) & _is(other, _WILD), main, rng, x.shape)
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
    return inside(made, b)


def _sample_of_places(places: Array, main: Array, rng: np.random.Generator, dims: tuple[int, ...]) -> Array:
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

    largest = FORMATS[dtype.name].largest
    top = math.frexp(largest)[1] - 1
    sizes = np.array([largest, *np.ldexp([1.25, 1.75, 1.75], [top - 1, top - top // 6, top // 2])])
    return np.asarray(np.copysign(sizes[row % 4], x))


def _limits(x: Array, b: Buffer, first: Array, last: Array) -> None:
    """The ends of an integer's range, in some rows and columns: products and sums of those are the largest."""
    import numpy as np

    info = np.iinfo(x.dtype)
    lo, hi = b.whole_range or ((-128, 127) if b.dtype.kind == "i" else (0, 255))
    for remainder, end in ((_WILD, max(lo, info.min)), (_HUGE, min(hi, info.max))):
        np.copyto(x, end, where=np.broadcast_to(_is(first, remainder) | _is(last, remainder), x.shape))
