"""Tuning the kernels of a captured function: now, or beside the program; and writing down those that need it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ...ir.in_place import apart
from ...search.ahead import BuildPlace
from ...search.beside import BackgroundTuner
from .lookup import FoundKernel, looked_up_again
from .options import JitOptions
from .program import JitProgram

DEFAULT_S = 30.0
LEAST_S = 1.0
"""Seconds that a kernel gets at least."""


def shares(kernels: Sequence[FoundKernel], options: JitOptions) -> list[tuple[FoundKernel, float]]:
    """The kernels that have no exact answer, heaviest first, and the seconds that each gets: by the work of all its calls."""
    from ...search import parse_seconds

    total = parse_seconds(options.budget if options.budget is not None else DEFAULT_S)
    wanted = [k for k in kernels if not k.exact and k.kernel is not None]
    weights = [k.calls * (k.flops + 8 * k.nbytes) + 1 for k in wanted]
    return [(k, max(LEAST_S, total * w / sum(weights))) for k, w in zip(wanted, weights, strict=True)]


def tune_now(kernels: Sequence[FoundKernel], place: BuildPlace, options: JitOptions) -> int:
    """Tune the kernels that have no exact answer, heaviest first, until the budget is spent. Returns how many were tuned. What
    was found is in the cache; Ctrl-C keeps that, and ends the call."""
    from ...search import tune

    todo = shares(kernels, options)
    end = time.monotonic() + sum(s for _, s in todo)
    done = 0
    for k, seconds in todo:
        if done and time.monotonic() + LEAST_S > end:
            break
        assert k.kernel is not None
        tune(apart(k.kernel), device=place.device, threads=place.threads, cache=place.cache, budget=seconds)
        done += 1
    return done


def tune_beside(program: JitProgram, place: BuildPlace, options: JitOptions) -> BackgroundTuner | None:
    """Tune in the background. When a kernel is done, the program's next call runs it with the new schedule."""
    todo = shares(program.kernels, options)
    if not todo:
        return None

    def done(i: int) -> None:
        k = todo[i][0]
        program.change(k, looked_up_again(k, program.device, place))

    return BackgroundTuner([apart(k.kernel) for k, _ in todo if k.kernel is not None], place, [s for _, s in todo], done)
