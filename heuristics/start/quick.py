"""Start schedules at the time of a call: the first legal list by rule, and the model's choice among a few.

`gathered.starts` tries every guess, and has the model rank them: tens or hundreds of milliseconds. Here a rule puts
first what that ranking mostly picks, for the kernel's structure alone, and the model is asked about as many guesses as
its size allows. `benchmarks/jit_start.py` records what that costs, in time and in quality."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from itertools import chain, islice

from ...ir.kernel import Kernel
from ...opts.analysis.computed import all_contractions
from ...opts.analysis.structure import extent, nests, stepped
from ...opts.decided_blocks import undecided
from ...opts.defaults import rows
from ...opts.opt import Opts
from ...targets import Target
from ..model import estimate
from .blocked import blocked_starts
from .chains import chain_guesses
from .computed import paired, phases_first
from .constants import constant_starts
from .effects import EXACT
from .folds import TILES, fold_starts
from .gathered import owners, row_lanes, work
from .gpu.candidates import buildable
from .gpu.quick import gpu_wishes
from .groups import groups, paired_results
from .hoisted import hoisted
from .legal import Trials
from .narrow import narrow_sums
from .neighbours import neighbour_tiles
from .online import online_starts
from .phased import joined, phase_starts
from .picked_rows import gathers, picked_rows
from .placed import joined_places
from .quick_contractions import ask_contractions
from .rows import columns, scans, slid_windows, windows
from .scaled_groups import scaled_groups
from .scatters import private_copies
from .stamps import stamps
from .streamed import streamed
from .tiny_axes import in_registers
from .transposed import transposed

COST = 9.5
"""What all guesses of a kernel may cost together; applying and estimating one costs `EACH`, and `NODE` for every
expression of its nests. The units are about milliseconds of a server's core."""
EACH, NODE = 1.3, 0.03
MOST = 4


class _Choice:
    """The guesses that were tried so far, and what the model says of each; at most as many as the kernel's size allows."""

    def __init__(self, kernel: Kernel, target: Target, threads: int) -> None:
        self.trials, self.threads = Trials(kernel, target), threads
        self.found: dict[Opts, float] = {}
        self.most = most_guesses(kernel)

    def ask(self, wish: Opts) -> float | None:
        """Predicted seconds of what is legal of `wish`; None where nothing is, or enough was asked."""
        if len(self.found) >= self.most:
            return None
        opts = self.trials.legal_at_once(wish)
        if opts is None:
            return None
        if opts not in self.found and self.trials.target.kind == "gpu" and not buildable(self.trials.apply(opts)):
            return None
        if opts not in self.found:
            self.found[opts] = estimate(self.trials.apply(opts), self.threads)
        return self.found[opts]

    def ask_all(self, wishes: Iterable[Opts]) -> None:
        """Ask about wishes in turn, until enough was asked."""
        for wish in wishes:
            if len(self.found) >= self.most:
                return
            self.ask(wish)

    def best_first(self) -> list[Opts]:
        """What was asked, as the model ranks it."""
        return sorted(self.found, key=lambda o: (self.found[o], str(o)))


def most_guesses(kernel: Kernel) -> int:
    """How many guesses the model is asked about: fewer for kernels with long expressions."""
    nodes = sum(len(n.all_nodes) for n in nests(kernel))
    return max(2, min(MOST, int(COST / (EACH + NODE * nodes))))


def quick_starts(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT, part: bool = False) -> list[Opts]:
    """Few legal start schedules, best guess first; never empty. Deterministic: nothing is timed. `allowed`: effects that they may
    have on GPUs; `part`: it is one of the kernels of a schedule with phases for values (`hoisted`)."""
    if kernel.blocks is not None:
        return blocked_starts(kernel, target, threads, quick_starts(undecided(kernel), target, threads, allowed), quick=True)
    choice = _Choice(kernel, target, threads)
    if target.kind == "gpu":
        choice.ask_all(gpu_wishes(kernel, target, allowed))
        return list(dict.fromkeys((*choice.best_first(), ())))
    _of_processor(choice, kernel, target)
    streams = streamed(choice.trials, threads, joined_places(choice.trials, threads, choice.best_first()), 1)
    found = list(hoisted(choice.trials, threads, streams, lambda k: quick_starts(k, target, threads, part=True), 1, part=part))
    packed = _Choice(kernel, target, threads)
    if any(b.constant for b in kernel.inputs):
        packed.ask_all(constant_starts(kernel, target, threads, found[:1]))
    return list(dict.fromkeys((*packed.best_first(), *found, ())))


def _of_processor(choice: _Choice, kernel: Kernel, target: Target) -> None:
    """The first kind of guesses that has a legal one: as in `gathered.starts`, what has a fold's start schedules needs no other."""
    lanes = row_lanes(kernel, target)
    near = next(groups(choice.trials, lanes), None)
    if near is not None:
        choice.found[near] = 0.0
        return
    if _computed(choice, kernel, target):
        return
    found = all_contractions(kernel)
    folds = [] if any(stepped(kernel, c.nest) for c in found) else list(fold_starts(kernel, target, choice.threads))
    first = next((o for w in _spread(folds) if (o := choice.trials.legal_at_once(w)) is not None), None)
    if first is not None:  # the likeliest is hardly ever worse than another, and asking about it takes as long as making it
        choice.found[first] = 0.0
        return
    main = max(found, key=lambda c: work(c.nest)) if found else None
    if main is not None and any(extent(a) > 1 for a in main.rows):
        ask_contractions(choice.trials, choice.threads, main, choice.ask)
        if choice.found:
            return
    turned = next((o for o in transposed(kernel, target, lanes) if choice.trials.legal(o) is not None), None)
    if turned is not None:  # tiles in scratch beat strided accesses whatever the width
        choice.ask(turned)
        return
    wishes = _row_wishes(kernel, target, choice.threads, lanes)
    if main is not None:  # each operand is used for one row of results, so it is a row kernel as much
        choice.ask_all(islice(wishes, 2))
        ask_contractions(choice.trials, choice.threads, main, choice.ask)
    choice.ask_all(wishes)


def _computed(choice: _Choice, kernel: Kernel, target: Target) -> bool:
    """Whether there is a guess of another order of contraction, of a computed operand, or of what needs a phase first: these save more
    than any schedule of the kernel as it is written."""

    def quick(k: Kernel) -> Sequence[Opts]:
        return quick_starts(k, target, choice.threads)

    fold = next((o for w in online_starts(choice.trials, quick) if (o := choice.trials.legal_at_once(w)) is not None), None)
    if fold is not None:  # as for a kernel that is written as a fold
        choice.found[fold] = 0.0
        return True
    wishes = [*islice(phase_starts(choice.trials, quick), 1)]
    wishes += [next(joined(choice.trials, first, quick)) for first in phases_first(kernel, target)]
    choice.ask_all(wishes)
    for first, new, c in paired(kernel) if not wishes else ():

        def ask(wish: Opts, first: Opts = first, trials: Trials = Trials(new, target)) -> float | None:  # noqa: B008
            opts = trials.legal_at_once(wish)
            return None if opts is None else choice.ask((*first, *opts))

        ask_contractions(Trials(new, target), choice.threads, c, ask)
    return bool(choice.found)


def _spread(folds: Sequence[Opts]) -> list[Opts]:
    """Guesses for a fold, the likeliest first: the short tile of the second register tile, of the first, then all."""
    return [folds[i] for i in (len(TILES), 0, *range(len(folds))) if i < len(folds)]


def _row_wishes(kernel: Kernel, target: Target, threads: int, lanes: int) -> Iterator[Opts]:
    """Guesses for everything that is no contraction, the likeliest first."""

    def row(vectors: int, copies: int = 1) -> Opts:
        return rows(kernel, target, threads, vectors * lanes, True, copies)

    found = nests(kernel)
    several = len(found) > 1
    special = [
        _picked(owners(kernel, target, threads, lanes), (3, 12, 0)),
        _picked(private_copies(kernel, target, threads, lanes), (0, 2)),
        _picked(stamps(kernel, target, threads, lanes), (0, 2)),
        _picked(in_registers(kernel, target, threads, lanes), (0, 1)),
        _picked(columns(kernel, target, lanes, threads), (1, 0)),
        _picked(picked_rows(kernel, lanes), (0, 1)),
        _picked(windows(kernel, lanes), (3, 6, 1, 0)),
        _picked(slid_windows(kernel, lanes), (0, 1)),
        _picked(scans(kernel, lanes, threads), (2, 4, 0)),
        _picked(narrow_sums(kernel, target, lanes), (1, 3)),
        _picked(paired_results(kernel, target, threads, lanes), (0, 1)),
        _picked(scaled_groups(kernel, target, threads, lanes), (0, 1)),
        _picked(chain_guesses(kernel, target, threads, lanes), (0, 2, 1)),
        _picked(neighbour_tiles(kernel, target, threads, lanes), (0, 1)),
    ]
    if any(special):
        yield from chain.from_iterable(s[:2] for s in special)
        yield row(8)
        yield from chain.from_iterable(s[2:] for s in special)
        yield row(4)
    if any(gathers(n) for n in found):
        yield from (row(8, 8), row(8, 4))
    if any(o.op == "FUSE" for o in row(1)):  # more accumulators
        yield from (row(2), row(4), row(1))
    yield from (row(4, 2), row(8), row(4)) if several else (row(8), row(4))


def _picked(wishes: Iterable[Opts], places: Sequence[int]) -> list[Opts]:
    """The wishes at `places`, and the first where there are fewer."""
    found = list(islice(wishes, max(places) + 1))
    return [found[i] for i in places if i < len(found)] or found[:1]
