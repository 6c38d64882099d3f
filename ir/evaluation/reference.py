"""The reference: any kernel, evaluated densely in float64, as the integer twin, or with a running error bound."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from math import prod
from typing import TYPE_CHECKING, Any

from .. import index as ix
from ..body import Fold, Scan
from ..buffer import Buffer
from ..checks.operand_ranges import check_operands, highest, operand_ranges
from ..errors import KernelError
from ..kernel import Kernel
from ..node import Node, walk

if TYPE_CHECKING:
    import numpy as np

    from .algebra import Algebra
    from .dense import Env, Span

    Array = np.ndarray[Any, Any]


def bind(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int]) -> dict[Node, int]:
    """The value of every symbol: from `vars`, else from an input dimension that is that symbol."""
    out: dict[Node, int] = {}
    for s in kernel.symbols:
        name = s.arg.name
        found = vars.get(name)
        if found is None:
            dims = ((b, d) for b in kernel.inputs if b.name in inputs for d in range(len(b.shape)) if b.shape[d] is s)
            found = next((inputs[b.name].shape[d] for b, d in dims if inputs[b.name].ndim == len(b.shape)), None)
        if found is None:
            raise KernelError(f"kernel {kernel.name}: give symbol {name} in vars")
        if not s.arg.lo <= found <= s.arg.hi:
            raise KernelError(f"kernel {kernel.name}: {name}={found} is outside [{s.arg.lo}, {s.arg.hi}]")
        out[s] = int(found)
    return out


def checked_inputs(kernel: Kernel, inputs: Mapping[str, Array], symbols: dict[Node, int]) -> dict[Buffer, Array]:
    """The arrays by buffer, in the shapes that the kernel declares. Raises KernelError for those that are missing or misshapen,
    and OutOfRangeError for places outside."""
    import numpy as np

    out: dict[Buffer, Array] = {}
    for b in kernel.inputs:
        if b.name not in inputs:
            raise KernelError(f"kernel {kernel.name}: input {b.name} is missing; give {', '.join(x.name for x in kernel.inputs)}")
        a = np.asarray(inputs[b.name])
        if b.dtype.foreign and a.dtype == np.dtype(f"u{b.dtype.size}"):
            a = a.view(b.dtype.np)
        shape = tuple(d if isinstance(d, int) else ix.evaluate(d, symbols) for d in b.shape)
        if a.shape != shape:
            raise KernelError(f"kernel {kernel.name}: input {b.name} has shape {a.shape}, expected {shape}")
        out[b] = a
    ranges = operand_ranges(kernel)
    check_operands(f"kernel {kernel.name}", ranges, highest(ranges, symbols), list(out.values()))
    return out


SLACK = 4.0
"""The c of the error bound: a correct computation satisfies |computed − value| <= SLACK·eps·scale (+ output rounding)."""
_KEPT = 1 << 23
"""Elements of the largest value kept whole (64 MiB in float64); above it the kernel runs in slices of its outer axes."""
_TILES = 8
"""Tiles that `evaluate_kinds` cuts folds into."""
_SHARED = 1 << 17
"""Elements of the largest value or store from which several threads share the slices."""


def evaluate(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    vars: Mapping[str, int] | None = None,
    mode: str = "float64",
    tile: int | Mapping[str, int] | None = None,
) -> dict[str, Array]:
    """Every output of `kernel` by name.

    `inputs` holds an array of the declared shape for each input (bfloat16 and 8-bit floats as ml_dtypes' types, or as bits: uint16, uint8); `vars`
    gives the symbols (those that are a whole dimension of an input may be left out). Float results are float64, not rounded
    to the output's type; integer results are int64 (uint64 stays). Elements that no store writes are NaN (0 for integers).

    `mode="twin"` runs the integer twin (`ir.evaluation.twin`): float inputs are uint32 arrays and so are float results.
    `tile` cuts every fold's axis in tiles of that many elements (or per fold name) and merges them, from the identity on.

    Raises KernelError for missing or misshapen inputs and for an index outside its buffer.
    """
    from .algebra import Algebra, Twin

    if mode not in ("float64", "twin"):
        raise KernelError(f"unknown evaluation mode {mode!r}; use float64 or twin")
    algebra: Algebra = Twin() if mode == "twin" else Algebra()
    return {name: _plain(q) for name, q in run(kernel, inputs, vars or {}, algebra, tile).items()}


def evaluate_error(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    vars: Mapping[str, int] | None = None,
    tile: int | Mapping[str, int] | None = None,
    threads: int = 1,
    overflows: set[str] | None = None,
) -> dict[str, tuple[Array, Array]]:
    """(value, scale) of every output: a correct schedule's result r, before it is rounded to the output's type, satisfies
    |r − value| <= SLACK·eps·scale, where eps is `dtype.acc.eps` of the output's type. For integer outputs `scale` is the
    absolute difference allowed (0 unless a conversion or comparison of rounded floats could fall either way).

    A running error analysis (Higham, Accuracy and Stability of Numerical Algorithms, 2002, §3.3) with probabilistic growth
    √K for sums of K terms (Higham and Mary, SIAM J. Sci. Comput. 41, 2019) instead of K.

    Up to `threads` threads share the work where outputs can be cut along an outer axis; they have ended when this returns.
    `overflows` gets the kernel's name where a value on the way is too large for its type: what follows from it is then not
    what this says (`evaluate_kinds` knows).
    """
    import numpy as np

    from .error_bound import Errors, Pair

    out: dict[str, tuple[Array, Array]] = {}
    algebra = Errors(SLACK)
    results = run(kernel, inputs, vars or {}, algebra, tile, threads)
    if algebra.overflowed and overflows is not None:
        overflows.add(kernel.name)
    for b in kernel.outputs:
        q: Pair = results[b.name]
        e = np.zeros(q.value.shape) if q.error is None else q.error
        out[b.name] = (_plain(q.value), e / b.dtype.acc.eps if b.dtype.is_float else SLACK * e)
    return out


def evaluate_points(kernel: Kernel, inputs: Mapping[str, Array], count: int, seed: int) -> dict[str, tuple[Array, Array, Array]]:
    """What `evaluate_error` gives for some elements of every output, by name: (flat positions, values, scales).

    `count` times, each of the leading axes that all stores share is set to a random index, and once each to its first
    and its last; everything that belongs to such a point is evaluated. Raises KernelError for kernels without such axes."""
    import numpy as np

    from .dense import Env
    from .error_bound import Errors

    symbols = bind(kernel, inputs, {})
    prefix = cut_axes(kernel, Env(Errors(SLACK), checked_inputs(kernel, inputs, symbols), symbols))
    if not prefix:
        raise KernelError(f"kernel {kernel.name} has no axis that all of it shares: evaluate it whole")
    rng = np.random.default_rng(seed)
    points: list[dict[str, Span]] = [{f: (i := int(rng.integers(n)), i + 1) for f, n in prefix} for _ in range(count)]
    points += [{f: (0, 1) for f, _ in prefix}, {f: (n - 1, n) for f, n in prefix}]
    out: dict[str, tuple[Array, Array, Array]] = {}
    results = run(kernel, inputs, {}, Errors(SLACK), None, slices=points)
    for b in kernel.outputs:
        value, error = results[b.name].value.reshape(-1), results[b.name].error.reshape(-1)
        at = np.flatnonzero(~np.isnan(value))
        out[b.name] = at, value[at], error[at] / b.dtype.acc.eps
    return out


def evaluate_kinds(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    vars: Mapping[str, int] | None = None,
    threads: int = 1,
    slices: list[dict[str, Span]] | None = None,
) -> dict[str, tuple[Array, Array, Array | None, Array | None]]:
    """(value, scale, loose, unsure) of every output, for inputs with special values: as `evaluate_error`, and masks
    of the elements for which any result is right, and of the zeros that may have either sign (None: none). See
    `ir.evaluation.certain_results`.

    Kernels with folds are evaluated uncut and in tiles: what is not of one kind in both is loose. `slices`: only these parts
    of the outer axes are evaluated (`sampling.sampled_slices`)."""
    import numpy as np

    from ..skipped_tiles import skip_conditions
    from .certain_results import Computed, either

    folds = [item for item in kernel.body if isinstance(item, Fold)]
    algebra = Computed(SLACK, any(skip_conditions(f) for f in folds))
    symbols = bind(kernel, inputs, vars or {}) if folds else {}
    tiles = {f.name: max(1, -(-(e if isinstance(e := f.axis.arg.extent, int) else ix.evaluate(e, symbols)) // _TILES)) for f in folds}
    runs = [run(kernel, inputs, vars or {}, algebra, t, threads, slices) for t in ((None, tiles) if folds else (None,))]
    out: dict[str, tuple[Array, Array, Array | None, Array | None]] = {}
    for b in kernel.outputs:
        first, *rest = (r[b.name] for r in runs)
        value, e = first.pair.value, first.pair.error
        loose, unsure = first.loose, first.unsure
        for other in rest:
            v = other.pair.value
            differs = (
                (np.isfinite(value) != np.isfinite(v)) | (np.isnan(value) != np.isnan(v)) | (np.isinf(value) & np.isinf(v) & (value != v))
            )
            loose, unsure = either(loose, other.loose, differs if b.dtype.is_float else value != v), either(unsure, other.unsure)
        e = np.zeros(value.shape) if e is None else e
        out[b.name] = (_plain(value), e / b.dtype.acc.eps if b.dtype.is_float else SLACK * e, loose, unsure)
    return out


def _plain(a: Array) -> Array:
    import numpy as np

    return a if a.dtype in (np.float64, np.uint32, np.uint64) else a.astype(np.int64)


def run(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    vars: Mapping[str, int],
    algebra: Algebra,
    tile: int | Mapping[str, int] | None,
    threads: int = 1,
    slices: list[dict[str, Span]] | None = None,
) -> dict[str, Any]:
    """Every output by name, as a quantity of `algebra`. `tile` as in `evaluate`; `slices`: spans of families, instead of all there is."""
    import numpy as np

    from . import stores
    from .dense import Env, Stored
    from .stores import needed
    from .values import compute, fold

    symbols = bind(kernel, inputs, vars)
    env = Env(algebra, checked_inputs(kernel, inputs, symbols), symbols)
    outputs: dict[str, stores.Output] = {}
    for s in kernel.stores:
        outputs.setdefault(s.buffer.name, stores.Output(env, s))

    shared = {family for family, _ in shared_prefix(kernel, env)}
    whole: dict[str, Stored] = {}

    def part(ranges: dict[str, Span]) -> None:
        mine = Env(algebra, env.inputs, symbols)
        beside = None if shared.issuperset(ranges) else needed(kernel, env, ranges)
        with np.errstate(all="ignore"):
            for item in kernel.body:
                if isinstance(item, Fold):
                    fold(mine, item, ranges, tile if tile is None or isinstance(tile, int) else tile.get(item.name))
                elif beside is None or beside[item.name]:
                    mine.values[item.name] = compute(mine, item, ranges if beside is None else beside[item.name])
                else:  # all of it, which is the same for all parts
                    mine.values[item.name] = whole.get(item.name) or whole.setdefault(item.name, compute(mine, item, {}))
            for s in kernel.stores:
                stores.run(mine, s, outputs[s.buffer.name], ranges)

    # threads may not write one element, nor in another order
    threads = threads if all(stores.writes_once(s) for s in kernel.stores) else 1
    slices = _slices(kernel, env, threads) if slices is None else slices
    if threads == 1 or len(slices) == 1:
        for ranges in slices:
            part(ranges)
    else:
        with ThreadPoolExecutor(min(threads, len(slices))) as pool:
            list(pool.map(part, slices))
    with np.errstate(all="ignore"):
        return {name: out.result(env) for name, out in outputs.items()}


def _slices(kernel: Kernel, env: Env, threads: int) -> list[dict[str, Span]]:
    """Ranges of the outer families that every value and store shares, small enough that kept values stay small, and
    enough of them for all threads."""
    size = max((prod(env.extent(a) for a in v.axes) for v in kernel.values.values()), default=0)
    parts = -(-size * threads // _KEPT)  # each thread has a slice
    if threads > 1 and max(size, *(prod(env.extent(a) for a in s.axes) for s in kernel.stores)) >= _SHARED:
        parts = -(-max(parts, 1) // threads) * threads
    if parts <= 1:
        return [{}]
    out: list[dict[str, Span]] = [{}]
    for family, n in shared_prefix(kernel, env):
        pieces = min(parts, n)
        step = -(-n // max(1, pieces))
        out = [{**r, family: (lo, min(lo + step, n))} for r in out for lo in range(0, n, step)]
        parts = -(-parts // max(1, pieces))
        if parts <= 1:
            break
    return out


def cut_axes(kernel: Kernel, env: Env) -> list[tuple[str, int]]:
    """(family, extent) of the leading axes along which outputs can be computed in parts: those that all values share, else those of stores
    alone (`stores.families`)."""
    from .stores import families

    return shared_prefix(kernel, env) or families(kernel, env)


def shared_prefix(kernel: Kernel, env: Env) -> list[tuple[str, int]]:
    """(family, extent) of the leading axes that all values and stores share and hand through unchanged."""
    values = list(kernel.values.values())
    bound = [v.axes for v in values] + [s.axes for s in kernel.stores]
    barred = {item.axis.arg.family for item in kernel.body if isinstance(item, Fold)}
    barred |= {v.expr.axis.arg.family for v in values if isinstance(v.expr, Scan)}
    barred |= {a.arg.family for v in values for a in v.reduce_axes}
    refs = [n for n in walk(*kernel.expressions()) if n.op == "ref"]
    out: list[tuple[str, int]] = []
    for p in range(min(len(a) for a in bound)):
        family = bound[0][p].arg.family
        same = all(a[p].arg.family == family and sum(x.arg.family == family for x in a) == 1 for a in bound)
        passed = all(r.src[p].op == "axis" and r.src[p].arg.family == family for r in refs)
        if not same or not passed or family in barred:
            break
        out.append((family, env.extent(bound[0][p])))
    return out
