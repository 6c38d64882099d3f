"""Runs a schedule at a small shape where every access is checked: in the interpreter of Programs, and as OpenCL C under Oclgrind."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...devices.opencl import oclgrind
from ...ir.errors import TilewrightError, VerifyError
from ...log import logger
from ..inputs import generate, shape
from .verify import check as compare
from .verify import expectations, reference_kernel

if TYPE_CHECKING:
    import numpy as np

    from ...devices import SourceLike
    from ...ir.kernel import Kernel
    from ...opts import Opt
    from ...targets import Target

    Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sanitised:
    """What became of one schedule. `wrong`: what the interpreter, or the comparison of a result with the reference,
    objects to, or ''. `oclgrind`: Oclgrind's report, None where it did not run, which `why` explains. `threads`: of a
    group, in each phase. Times are seconds."""

    opts: tuple[Opt, ...]
    threads: tuple[int, ...]
    wrong: str
    oclgrind: oclgrind.Report | None
    why: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Nothing was found."""
        return not self.wrong and not (self.oclgrind and self.oclgrind.findings)


def sanitise(
    kernel: Kernel, opts: Iterable[Opt], target: Target, vars: Mapping[str, int] | None = None, seed: int = 0, limit_s: float = 120.0
) -> Sanitised:
    """Lower a schedule of `kernel` for `target` and run it on random inputs, in the interpreter and, where the target speaks OpenCL C and
    Oclgrind is installed, under Oclgrind; both results are compared with the float64 reference. `vars`: values of the symbols.

    Raises OptError for options that are not legal there, BuildError where they cannot be lowered or rendered."""
    from ... import interp
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render

    opts, values = tuple(opts), dict(vars or {})
    begin = time.monotonic()
    scheduled = apply(kernel, opts, target)
    program = lower(scheduled)
    reference = reference_kernel(kernel, target, "DOWNCONVERT" in scheduled.effects)
    source = render(program, target)
    data = generate(kernel, values, seed)
    order = [values[s.arg.name] for s in kernel.symbols]
    wrong = ""
    arrays = _arrays(kernel, data, values)
    try:
        interp.run(program, arrays, order)
        wrong = _compare(reference, arrays, data, values)
    except VerifyError as e:
        wrong = f"the interpreter: {e}"
    report, why = None, ""
    if target.lang != "opencl":
        why = f"Oclgrind does not check {target.lang}"
    else:
        arrays = _arrays(kernel, data, values)
        try:
            report = oclgrind.check(source, arrays, order, limit_s)
            if not report.findings and not wrong and (wrong := _compare(reference, arrays, data, values)):
                wrong = f"under Oclgrind: {wrong}"
        except TilewrightError as e:
            why = str(e)
    return Sanitised(opts, source.signature.threads, wrong, report, why, time.monotonic() - begin)


MOST_BYTES = 1 << 28
"""Bytes of operands above which Oclgrind is not asked about a winner."""
GROUPS = 2
"""Groups of each phase that it runs of a winner: it interprets about a million operations a second."""
log = logger("measure")


def fault(kernel: Kernel, source: SourceLike | None, values: Mapping[str, int], seed: int, limit_s: float) -> str | None:
    """What Oclgrind objects to in the first groups of a kernel of ours in OpenCL C, at its own shape: '' where it found nothing, None
    where the text is not here (of what others built), it has nothing to look for (groups of one thread), is not installed, or does not
    end in time."""
    if source is None or source.target.lang != "opencl" or max(source.signature.threads) < 2 or not oclgrind.here():
        return None
    signature = source.signature
    arrays = _arrays(kernel, generate(kernel, values, seed), values)
    if sum(a.nbytes for a in arrays) > MOST_BYTES:
        return None
    try:
        found = oclgrind.check(source, arrays, [values[s] for s in signature.symbols], limit_s, GROUPS).findings
    except TilewrightError as e:
        log.info("%s was not checked by Oclgrind: %s", kernel.name, e)
        return None
    # a later phase reads what groups that did not run have not written, so its places may be anywhere
    kinds = ("race", "barrier") if len(signature.threads) > 1 else ("race", "barrier", "bounds")
    return next((" ".join(f.text.split()) for f in found if f.kind in kinds), "")


def _arrays(kernel: Kernel, data: Mapping[str, Array], values: Mapping[str, int]) -> list[Array]:
    """An array for each parameter, outputs poisoned."""
    import numpy as np

    out = []
    for b in kernel.buffers:
        made = np.array(data[b.name]) if b.name in data else np.empty(shape(b, kernel, values), b.dtype.np)
        if b.name not in data:
            made.reshape(-1).view(np.uint8).fill(0xFF)
        out.append(made)
    return out


def _compare(kernel: Kernel, arrays: list[Array], data: Mapping[str, Array], values: Mapping[str, int]) -> str:
    by_name = {b.name: a for b, a in zip(kernel.buffers, arrays, strict=True)}
    for name, expect in expectations(kernel, data, values).items():
        verdict = compare(expect, by_name[name].ctypes.data)
        if not verdict.ok:
            return verdict.detail
    return ""
