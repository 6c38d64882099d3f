"""Is a result right? Every element of every output is compared with a float64 reference and its own error bound.

bound = SLACK · eps(accumulate type) · scale + half an ulp of the output type at the reference

`scale` and SLACK come from `evaluate_error`: what the roundings of any order of evaluation can add up to, growing
with √K over a reduction of K terms. Integers and bools must be equal (unless they come from rounded floats). An
element that is NaN where the reference is finite, or that nobody wrote, is wrong. On special inputs
(`inputs.generate_special`) bounds are as narrow as subnormal numbers, zeros must have the right sign, and what the kernel's
definition leaves open is not looked at (`evaluate_kinds`)."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from math import isfinite, isinf, isnan, prod
from typing import TYPE_CHECKING, Any

from ...ir.body import Store
from ...ir.buffer import Buffer, loads
from ...ir.dtypes import FORMATS, HALF_SUBNORMAL, OVERFLOW
from ...ir.evaluation import SLACK, evaluate, evaluate_error, evaluate_kinds
from ...ir.kernel import Kernel
from ...ir.lower_precision import cut_sums, lower_precision
from ...ir.node import const, walk
from ...targets import usable_cores
from ..inputs import shape
from ..operands import view
from .exact_sums import drift, is_exact

if TYPE_CHECKING:
    import numpy as np

    from ...ir.dtypes import DType
    from ...targets import Target

    Array = np.ndarray[Any, Any]

WORST = 1e30
"""Stands for an infinite ratio, so that an error is always a finite number."""
_CHUNK = 1 << 16
"""Elements that NumPy looks at at a time: what it makes of them stays in a core's cache."""
TINY, TINIEST = 1e-38, 1e-300
"""The narrowest bound whose inverse float32, and float64, holds."""
SAID = 0.05
"""Above this share of an output, elements that are no numbers or undefined are told of."""
SPECIAL_WORK = 1 << 24
"""Elements of arrays (`evaluation_work`) up to which a kernel's whole output is compared on special inputs: about a second of one core."""
SAMPLED_WORK = 1 << 22
"""The same of what is compared of larger kernels."""
NEAR = 64.0
"""Up to so many times its bound an error may still be one of rounding."""
RACE = "the same inputs gave other bits: threads race, or memory is read before it is written"


@dataclass(frozen=True)
class Expect:
    """What one output must hold. `value` is flat: float64, or the output's own type for integers and bools; `weight`
    (float32) is one over the bound (None: equality; float64 on special inputs). `special` marks elements compared by
    kind (not finite in the output type), `free` those that the kernel leaves unwritten or undefined, `signed` zeros
    whose sign counts; None where there are none. `note`: what to tell whoever tunes, or ''."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    value: Array
    weight: Array | None
    special: Array | None = None
    free: Array | None = None
    signed: Array | None = None
    note: str = ""
    looked: float = 1.0
    """The share of elements that are looked at at all; the others are `free`."""

    @property
    def plain(self) -> bool:
        """No element needs special treatment, so the compare kernel can do it."""
        if self.special is not None or self.free is not None or self.signed is not None:
            return False
        return (self.weight is not None) == self.dtype.is_float and (self.weight is None or self.weight.itemsize == 4)

    @property
    def strict(self) -> float:
        """The share, of the elements that are looked at, of those that must be a certain finite number."""
        import numpy as np

        left = [m for m in (self.special, self.free) if m is not None]
        loose = float(np.logical_or.reduce(left).mean()) if left and self.value.size else 0.0
        return (1.0 - loose) / self.looked

    def stale(self) -> Array | None:
        """Values that differ from the right ones everywhere, to poison an integer output with (None for floats: NaN does it)."""
        import numpy as np

        if self.dtype.is_float:
            return None
        return np.ascontiguousarray(~self.value)


@dataclass(frozen=True)
class Verdict:
    """The largest |result − reference| over its bound (at most 1e30), and in words what is wrong ('' if nothing is)."""

    error: float
    detail: str = ""

    @property
    def ok(self) -> bool:
        """Within the bound everywhere."""
        return self.error <= 1.0


@lru_cache(maxsize=64)
def reference_kernel(kernel: Kernel, target: Target, lower: bool) -> Kernel:
    """The kernel to whose error bound results on a target are held, mostly the kernel itself. `lower`: factors of products may be rounded
    (DOWNCONVERT). Long sums that tensor cores could make have their cutting in mind."""
    found = lower_precision(kernel) if lower else kernel
    return cut_sums(found) if target.language.tensor_cores else found


def expectations(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], whole: bool = False) -> dict[str, Expect]:
    """The reference for every output, by name. `whole`: the inputs are whole numbers of `inputs.generate(whole=True)`; where no
    rounding can happen on those, floats must be equal too, and elsewhere roundings may all go one way (`exact.drift`)."""
    import numpy as np

    overflows: set[str] = set()
    with np.errstate(all="ignore"):
        results = evaluate_error(kernel, inputs, vars, threads=usable_cores(), overflows=overflows)
        free = unwritten(kernel, inputs, vars)
    written = {name: ~mask for name, mask in free.items()}
    if overflows:
        results, free = with_overflow(kernel, inputs, vars, results, free)
    exact = whole and not overflows and is_exact(kernel, vars)
    drifted = drift(kernel, vars) if whole and not exact else 1.0
    out = {}
    for b in kernel.outputs:
        value, scale = results[b.name]
        e = expected(b.name, b.dtype, shape(b, kernel, vars), np.asarray(value), drifted * np.asarray(scale), free.get(b.name), exact)
        out[b.name] = replace(e, note=noted(b.name, e.value, (e.special, e.free), written.get(b.name)))
    return out


def special_expectations(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], seed: int = 0) -> dict[str, Expect]:
    """As `verify.expectations` on inputs of `special.generate`. Of kernels that NumPy would take long for, parts of the outer axis alone: the first, the
    last, and others by `seed`."""
    from ...ir.evaluation.sampling import evaluation_work, sampled_slices

    work = evaluation_work(kernel, in_order=True)
    slices = sampled_slices(kernel, inputs, vars, SAMPLED_WORK / work, seed) if work > SPECIAL_WORK else None
    return certain_expectations(kernel, inputs, vars, slices, usable_cores())


def certain_expectations(
    kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int], slices: list[dict[str, tuple[int, int]]] | None, threads: int
) -> dict[str, Expect]:
    """The same of some `slices` of the outer axes (`ir.evaluation.sampling`; None: of all), on any inputs, by so many threads."""
    import numpy as np

    from ...ir.evaluation.sampling import reached

    with np.errstate(all="ignore"):
        results = evaluate_kinds(kernel, inputs, vars, threads, slices)
        free = unwritten(kernel, inputs, vars)
        seen = {} if slices is None else reached(kernel, inputs, vars, slices)
    drifted = drift(kernel, vars)  # few values, again and again
    out = {}
    for b in kernel.outputs:
        value, scale, loose, unsure = results[b.name]
        dims = shape(b, kernel, vars)
        undefined = [m.reshape(-1) for m in (free.get(b.name), None if loose is None else np.broadcast_to(loose, dims)) if m is not None]
        undefined += [~seen[b.name]] if b.name in seen else []
        e = expected(
            b.name,
            b.dtype,
            dims,
            np.asarray(value),
            drifted * np.asarray(scale),
            np.logical_or.reduce(undefined) if undefined else None,
            False,
            np.dtype(np.float64),
        )
        if b.dtype.is_float:
            zeros = e.value == 0
            e = replace(e, signed=zeros if unsure is None else zeros & ~np.broadcast_to(unsure, dims).reshape(-1))
        out[b.name] = replace(e, looked=float(seen[b.name].mean())) if b.name in seen else e
    return out


def expected(
    name: str,
    dtype: DType,
    dims: tuple[int, ...],
    value: Array,
    scale: Array,
    free: Array | None,
    exact: bool,
    weights: np.dtype[Any] | None = None,
) -> Expect:
    """What an output of some type and shape must hold, of the reference's `value` and `scale` (`evaluate_error`). `free`: elements that
    are not looked at; `exact`: no rounding can happen but the last; `weights`: the type of the bounds' inverses (float32)."""
    import numpy as np

    weights = np.dtype(np.float32) if weights is None else weights
    least = TINY if weights.itemsize == 4 else TINIEST

    value = value.reshape(-1)
    scale = np.broadcast_to(scale, dims).reshape(-1)
    if not dtype.is_float:
        allowed = np.ascontiguousarray(1.0 / np.maximum(scale, 0.5), dtype=np.float32) if scale.any() else None
        return Expect(name, dtype, dims, np.ascontiguousarray(value.astype(dtype.np)), allowed, None, free)
    value = np.ascontiguousarray(value, dtype=np.float64)
    unit = SLACK * dtype.acc.eps
    weight = np.empty(value.size, weights)

    def part(lo: int) -> Array | None:
        """Fill a chunk of `weight`; which of its elements are not finite in the output's type, if any."""
        part = slice(lo, lo + _CHUNK)
        with np.errstate(all="ignore"):
            v = value[part]
            rounded = v.astype(dtype.np)
            odd = ~np.isfinite(rounded.astype(np.float64))
            bound = unit * scale[part] + np.maximum(np.abs(v) * (dtype.eps / 2), HALF_SUBNORMAL[dtype.name])
            if exact:
                value[part] = rounded.astype(np.float64)
                bound = np.zeros_like(v)
            weight[part] = 1.0 / np.maximum(bound, least)
        return odd if odd.any() else None

    with ThreadPoolExecutor(usable_cores()) as pool:
        odd = list(pool.map(part, range(0, value.size, _CHUNK)))
    special = None
    if any(o is not None for o in odd):
        special = np.concatenate([np.zeros(min(_CHUNK, value.size - i * _CHUNK), bool) if o is None else o for i, o in enumerate(odd)])
    return Expect(name, dtype, dims, value, weight, special, free)


def with_overflow(
    kernel: Kernel,
    inputs: Mapping[str, Array],
    vars: Mapping[str, int],
    plain: Mapping[str, tuple[Array, Array]],
    free: Mapping[str, Array],
) -> tuple[dict[str, tuple[Array, Array]], dict[str, Array]]:
    """(value, scale) and free elements where a value on the way does not fit its type: infinities go on from there, as they
    do in the kernel, and an element is free where right schedules may differ in that. What surely overflows at the end alone
    must still be infinite."""
    import numpy as np

    with np.errstate(all="ignore"):
        kinds = evaluate_kinds(kernel, inputs, vars, threads=usable_cores())
        results, open_ends = {}, dict(free)
        for b in kernel.outputs:
            value, scale, loose, _ = kinds[b.name]
            first, bound = (np.asarray(x) for x in plain[b.name])
            if loose is not None:
                loose = np.broadcast_to(loose, first.shape)
                if b.dtype.is_float:
                    sure = loose & np.isfinite(first) & (np.abs(first) - SLACK * b.dtype.acc.eps * bound >= OVERFLOW[b.dtype.compute.name])
                    value, loose = np.where(sure, first, value), loose & ~sure
                flat = loose.reshape(-1)
                if flat.any():
                    open_ends[b.name] = flat | free[b.name] if b.name in free else flat
            results[b.name] = value, scale
    return results, open_ends


def noted(name: str, value: Array, masks: tuple[Array | None, Array | None], written: Array | None) -> str:
    """What whoever tunes should know of an output's reference: that much of it is no number, is left open, or is not there.

    `masks`: the elements that are not finite in the output's type, and those that are free (`verify.Expect`); `written`: those
    that the kernel writes (None: all)."""
    import numpy as np

    if not value.size:
        return ""
    if written is not None and not written.any():
        return f"no element of {name} is written: the mask of its store never holds, so nothing of it was verified"
    there = np.ones(value.size, bool) if written is None else written
    special, free = (np.zeros(value.size, bool) if m is None else m & there for m in masks)
    nan = np.isnan(value) & special
    found = {"NaN": nan, "infinite": special & ~nan, "left open (values overflow on the way)": free}
    total = int(there.sum())
    parts = [f"{what} in {int(m.sum())}" for what, m in found.items() if m.sum() > SAID * total]
    if not parts:
        return ""
    return (
        f"of {total} elements of {name} the reference is {' and '.join(parts)} on random inputs, so that the others alone show whether results "
        "are right. State what inputs hold: kb.input(..., range=(least, largest))"
    )


def unwritten(kernel: Kernel, inputs: Mapping[str, Array], vars: Mapping[str, int]) -> dict[str, Array]:
    """Flat masks of the output elements that no store reaches, for outputs where that can be (masked or indexed stores)."""
    by_output: dict[Buffer, list[Store]] = {}
    for s in kernel.stores:
        by_output.setdefault(s.buffer, []).append(s)
    out = {}
    for b, stores in by_output.items():
        if any(s.combine is not None or _covers(s, shape(b, kernel, vars)) for s in stores):
            continue
        hit = _hit(kernel, stores, inputs, vars)
        if not hit.all():
            out[b.name] = ~hit
    return out


def _covers(s: Store, dims: tuple[int, ...]) -> bool:
    """Whether a store certainly writes every element."""
    points = s.mask is None and len(set(s.indices)) == len(s.indices)
    return points and all(
        (i.op == "axis" and (i.arg.extent is e or i.arg.extent == e)) or (i.op != "axis" and d == 1)
        for i, d, e in zip(s.indices, dims, s.buffer.shape, strict=True)
    )


def _hit(kernel: Kernel, stores: list[Store], inputs: Mapping[str, Array], vars: Mapping[str, int]) -> Array:
    """Which elements the stores write: the same stores with the constant 1; what stays 0 is not written."""
    import dataclasses

    import numpy as np

    b = stores[0].buffer
    marks = tuple(dataclasses.replace(s, expr=const(1, b.dtype)) for s in stores)
    roots = [r for s in marks for r in (*s.indices, *([] if s.mask is None else [s.mask]))]
    values = any(n.op == "ref" for r in roots for n in walk(r))
    used = kernel.inputs if values else tuple(dict.fromkeys(buffer for buffer, _, _ in loads(*roots)))
    ones = evaluate(Kernel(kernel.name, kernel.body if values else (), marks, (*used, b)), inputs, vars)
    return np.asarray(np.asarray(ones[b.name]).reshape(-1) == 1)


def check(expect: Expect, address: int) -> Verdict:
    """Compare the output at an address with NumPy, in chunks: any dtype, any reference."""
    import numpy as np

    got = view(address, expect.dtype, expect.shape).reshape(-1)
    worst, at, bad, missing = 0.0, -1, 0, 0
    with np.errstate(all="ignore"):
        for lo in range(0, got.size, _CHUNK):
            part = slice(lo, lo + _CHUNK)
            error = _errors(expect, got[part], part)
            top = int(error.argmax())
            if error[top] > worst:
                worst, at = float(error[top]), lo + top
            if error[top] > 1.0:
                bad += int((error > 1.0).sum())
                missing += _untouched(expect, got[part], error)
    if worst <= 1.0:
        return Verdict(worst)
    weight = None if expect.weight is None else expect.weight[at]
    return Verdict(worst, described(expect.name, expect.shape, worst, at, (got[at], expect.value[at], weight), bad, missing))


def _errors(expect: Expect, got: Array, part: slice) -> Array:
    import numpy as np

    value = expect.value[part]
    if expect.weight is None:
        error = np.where(got == value, 0.0, 2.0)
    elif not expect.dtype.is_float:
        error = np.abs(got.astype(np.float64) - value.astype(np.float64)) * expect.weight[part]
    else:
        wide = got.astype(np.float64)
        signless = expect.dtype.is_float and not FORMATS[expect.dtype.name].infinite
        over = np.isnan(wide) if signless else np.isinf(wide)
        if over.any():  # what is too large where the reference just fits is no further off than what rounds to it
            wide = np.where(over & np.isfinite(value), np.copysign(OVERFLOW[expect.dtype.name], value if signless else wide), wide)
        error = np.abs(wide - value) * expect.weight[part]
        np.nan_to_num(error, copy=False, nan=WORST, posinf=WORST)
        np.minimum(error, WORST, out=error)
        if expect.special is not None:
            odd = expect.special[part]
            rounded = value.astype(got.dtype)
            same = (np.isnan(got) & np.isnan(rounded)) | (got == rounded)
            error[odd & same] = 0.0
    if expect.signed is not None:
        error[expect.signed[part] & (got == 0) & (np.signbit(wide) != np.signbit(value))] = WORST
    if expect.free is not None:
        error[expect.free[part]] = 0.0
    return error


def _untouched(expect: Expect, got: Array, error: Array) -> int:
    import numpy as np

    if not expect.dtype.is_float:
        return 0
    bits = got.view(np.dtype(f"u{expect.dtype.size}"))
    return int(((bits == np.iinfo(bits.dtype).max) & (error > 1.0)).sum())


def described(name: str, shape: tuple[int, ...], worst: float, at: int, found: tuple[Any, Any, Any | None], bad: int, missing: int) -> str:
    """What is wrong with an output, in words: element `at` is the worst, and `found` its (result, reference, weight); `bad` are wrong,
    `missing` of those as they began."""
    import numpy as np

    got, value, weight = found
    where = ", ".join(str(int(i)) for i in np.unravel_index(at, shape)) if shape else ""
    text = f"{name}[{where}] is {got}, expected {value}"
    if weight is not None and worst < WORST:
        text += f" ± {1.0 / float(weight):.3g}"
    text += f"; {bad} of {prod(shape)} elements wrong"
    if missing:
        text += f", {missing} hold the poison they began with"
    return f"{text} ({likely_cause(float(got), float(value), worst, missing, bad)})"


def likely_cause(got: float, value: float, worst: float, missing: int, bad: int) -> str:
    """Why an element may be `got` where `value` is expected, `worst` times its bound away; of `bad` wrong elements
    `missing` hold what the output began with."""
    if missing == bad:
        return "nothing was stored there"
    if isfinite(value):
        if isnan(got):
            return "NaN comes of memory that was never written, or of inf - inf, 0 * inf or 0 / 0 after a value on the way overflowed"
        if isinf(got):
            return "a value on the way overflows its type"
    elif isfinite(got):
        return "the kernel as written gives no number there, for these inputs: is it meant for others (kb.input(..., range=...))?"
    if worst <= NEAR:
        return "just outside what rounding explains: many roundings one after the other, or large terms that cancel"
    return "another element was read or stored, a part was left out or counted twice, or threads race"
