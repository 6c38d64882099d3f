"""Outputs that are taken to be in memory are stored past the caches: a line that is written whole need not be read first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf

from ...ir.kernel import Kernel
from ...opts.access import accesses
from ...opts.analysis.computed import all_contractions
from ...opts.analysis.pages import FAR_CACHES, buffer_bytes
from ...opts.nests import Nest
from ...opts.opt import Opts, opt
from ...opts.options.cache import STREAM, has_streams
from ...opts.schedule import Scheduled
from ...targets import Target
from ..machine import DEFAULT
from ..model import estimate
from ..model.one_body import one_body
from ..processors import machine_of
from .legal import Trials

FAVOURITES = 4
"""Start schedules for which it is tried."""
LEAST = 8 << 20
"""Bytes of outputs from which on even the next kernel, which reads them, has them sooner (measured with 8 MiB: in 0.7 to 0.9 of the time of
both; with 4 MiB: in 1.15)."""
ROWS = 4
"""Rows whose lines may be open at once: of more, lines leave in pieces."""


def streamed(trials: Trials, threads: int, found: Iterable[Opts], favourites: int = FAVOURITES) -> Iterator[Opts]:
    """`found`, where each of the first `favourites` comes after itself with `NT` on outputs that no cache will keep, if the model takes
    that to be faster."""
    kernel, target = trials.kernel, trials.target
    if all_contractions(kernel):  # results leave register tiles in pieces of lines, and seldom
        yield from found
        return
    far = [b for b in kernel.outputs if buffer_bytes(b.shape, b.dtype.size) >= far_bytes(kernel, target)]
    for n, opts in enumerate(found):
        alone = trials.legal(opts) if far and n < favourites and not has_streams(opts) else None
        if alone is not None and few_rows(trials, alone):
            past = trials.legal((*alone, *(opt("CACHE", b.name, policy=STREAM) for b in far)))
            if past is not None and past != alone and estimate(trials.apply(past), threads) < estimate(trials.apply(alone), threads):
                yield past
        yield opts


def far_bytes(kernel: Kernel, target: Target) -> float:
    """Bytes of outputs from which on no cache keeps them for whoever reads them next: none where the last cache keeps all of the kernel's
    data, since then the lines that are written are there."""
    whole = sum(buffer_bytes(b.shape, b.dtype.size) for b in kernel.buffers)
    kept = machine_of(target.cpu).caches.last_cache(target.l2, target.l3)
    return max(LEAST, FAR_CACHES * target.l2) if whole > kept else inf


def few_rows(trials: Trials, opts: Opts) -> bool:
    """Whether every nest stores a few runs of consecutive elements at most side by side; where vectors are shorter than a line, with the
    stores behind it in one body."""
    state = trials.apply(opts)
    short = trials.target.vector_bytes < DEFAULT.caches.line
    rows = {n.name: _rows(trials, state, n) for n in state.nests}
    return all((sum(rows[m.name] for m in one_body(state, n)) if short else rows[n.name]) <= ROWS for n in state.nests)


def _rows(trials: Trials, state: Scheduled, nest: Nest) -> int:
    """Runs of consecutive elements that a nest stores side by side."""
    most = 0
    for x in accesses(trials.kernel, nest):
        if x.store:
            run, rows = 1, 1
            for a in sorted(nest.axes, key=lambda a: x.stride(a) or 0):
                together = x.stride(a) == run
                run, rows = (run * state.plans[a].copies, rows) if together else (run, rows * state.plans[a].copies)
            most = max(most, rows)
    return most
