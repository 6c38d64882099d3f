"""Start schedules: good answers with no search, from the kernel's structure and the target.

Three choices are made from one table of rules (`start_rules.py`). `starts` has the model rank a sample of every rule that applies, in tens or
hundreds of milliseconds. `quick_starts` asks about few guesses of the first rules, in ten or twenty (`benchmarks/jit_start.py`
records what that costs, in time and in quality). `templates` are the rules with their numbers left open, the spaces that samplers draw from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain, islice

from ...ir.kernel import Kernel
from ...log import logger
from ...opts.analysis.structure import extent, nests, shared_axes, stepped
from ...opts.apply_options import apply
from ...opts.legality import allowed_sizes, undecided
from ...opts.nests import FoldItem
from ...opts.opt import Opts, opt, short
from ...opts.options.fuse import with_rows
from ...opts.options.grid import consumers
from ...opts.schedule import Scheduled
from ...targets import Target
from ..contraction_order import much_cheaper, order_opts
from ..machine import DEFAULT
from ..model.gpu.gpu_estimate import estimate_gpu
from ..model.gpu.occupancy import chip_of, register_limit, statements, thread_registers
from .additions import finished, joined_places, streamed, with_early_exits
from .adjustments import blocked_starts, changed, fitted
from .contractions import ask_contractions, constant_starts, contraction_template, few_rows
from .dot_products import WIDE, few_against_rows
from .phase_schedules import computed_starts, hoisted, joined, online_starts, paired, phase_starts, phases_first, together
from .register_tiles import tiny_copies
from .row_schedules import better_lanes
from .start_rule import EXACT, Numbers, StartFacts, Template
from .start_rules import (
    ALONG_ROWS,
    COLUMN_CHAINS,
    CONTRACTIONS,
    CPU_RULES,
    CPU_TEMPLATES,
    EACH_AXIS,
    ENTRIES,
    FOLDS,
    GPU_RULES,
    GPU_TEMPLATES,
    GROUPS,
    RESIDUES,
    REUSED_READS,
    ROWS,
    ROWS_AGAINST_ROWS,
    SCALED_BYTES,
    SPECIAL,
    TRANSPOSED,
    UNROLLED_STEPS,
)
from .trials import Trials
from .unrolled import reduced_rows

log = logger("heuristics")

# the ranked choice ----------------------------------------------------------------------------------------------------
KEPT = 12
"""Start schedules of a GPU."""
SIMT = 4
"""Start schedules of a processor that is programmed as a GPU is, beside its own."""
COMPUTED, FOLDED, TILES, PACKED, BYTES = 8, 6, 2, 4, 2
"""How many are kept of phases and computed operands, of folds, of tiles beside groups, of those with constants packed once, and of products of
bytes."""


def starts(
    kernel: Kernel,
    target: Target,
    threads: int = 1,
    allowed: Set[str] = EXACT,
    phase: bool = False,
    part: bool = False,
    whole: Trials | None = None,
) -> list[Opts]:
    """Legal start schedules, best guess first; never empty. `allowed`: effects that they may have on GPUs; `phase`: it is one of the kernels
    of a guess, of which there are many, so fewer things are tried; `part`: of one with phases for values (`hoisted`); `whole`: the trials
    of the kernel that it is then a part of."""
    if kernel.blocks is not None:
        return blocked_starts(kernel, target, threads, starts(undecided(kernel), target, threads, allowed))
    found: dict[Opts, None] = {}
    f = StartFacts(kernel, target, threads, allowed, Trials(kernel, target, threads, whole))
    if target.kind == "gpu":
        found |= dict.fromkeys(_gpu_ranked(f)[:KEPT])
        return list(found | {(): None})
    trials = f.trials
    found |= dict.fromkeys(_of_bytes(f))
    alone = with_early_exits(trials, finished(trials, streamed(trials, joined_places(trials, _ranked(f, phase)))))

    def parts(k: Kernel) -> list[Opts]:
        return starts(k, target, threads, phase=phase, part=True, whole=trials)

    each = list(hoisted(trials, alone, parts, part=part, counted=not phase))
    if any(b.constant for b in kernel.inputs):
        found |= dict.fromkeys(trials.ranked(constant_starts(kernel, target, threads, each))[:PACKED])
    for opts in each:
        legal = trials.legal(opts)
        if legal is not None:
            found.setdefault(legal)
    if target.simt:
        found |= dict.fromkeys(_gpu_ranked(StartFacts(kernel, target, threads, trials=trials))[:SIMT])
    found.setdefault(())
    if not (phase or part):
        found = dict.fromkeys(_with_changes(f, list(found)))
    if log.listens():
        first = short(next(iter(found)))
        log.debug("%s for %s, %d threads: %d start schedules, the first %s", kernel.name, target.name, threads, len(found), first)
    return list(found)


def _of_bytes(f: StartFacts) -> list[Opts]:
    """The likeliest schedules of products of bytes with scales. They come first: nothing that takes such a sum apart, or computes its operands
    before, leaves the instruction that adds four products its bytes."""
    return list(islice((o for o in map(f.trials.legal_at_once, SCALED_BYTES.guesses(f)) if o is not None), BYTES))


def _ranked(f: StartFacts, phase: bool) -> Iterable[Opts]:
    """The guesses for a processor, kind by kind, of each kind best first by the model."""
    trials, kernel = f.trials, f.kernel
    yield from trials.ranked(RESIDUES.guesses(f))
    yield from (o for o in map(trials.legal, ENTRIES.guesses(f)) if o is not None)
    groups = list(GROUPS.guesses(f)) if reduced_rows(kernel) is None else []
    if not f.has("scan"):  # (along a scan its steps wait for each other: other lanes may be better)
        yield from _better_tiles(f, groups)

    def phases(k: Kernel) -> list[Opts]:
        return starts(k, f.target, f.threads, phase=True, whole=trials)

    computed = list(phase_starts(trials, phases))
    if much_cheaper(kernel):
        yield from trials.ranked(computed)
        return
    yield from online_starts(trials, phases)
    computed += computed_starts(trials, phases)
    main = f.main
    if computed:
        computed += [*ROWS_AGAINST_ROWS.guesses(f), *CONTRACTIONS.guesses(f)]
    yield from trials.ranked(computed)[:COMPUTED]
    if not any(stepped(kernel, c.nest) for c in f.contractions):
        yield from trials.ranked(FOLDS.guesses(f))[:FOLDED]
    plain = {o: trials.seconds(o) for o in groups}
    if main is not None:
        best = [] if few_against_rows(f) else list(CONTRACTIONS.guesses(f))
        if any(extent(a) > 1 for a in main.rows) and extent(main.lane) >= f.target.lanes(main.nest.expr.dtype):
            rows = list(ROWS_AGAINST_ROWS.guesses(f))
            yield from trials.ranked([*best, *rows, *ALONG_ROWS.guesses(f)])[: len(best) or len(rows)]
        else:  # each operand is used for one row of results, or by less than a vector of them, so it is a row kernel as much
            plain |= {o: trials.seconds(o) for o in best}
    # (steps first: they are taken where the model sees no difference)
    for wish in chain(UNROLLED_STEPS.guesses(f), ROWS.guesses(f), *(rule.guesses(f) for rule in SPECIAL)):
        opts = trials.legal(wish)
        if opts is not None:
            plain.setdefault(opts, trials.seconds(opts))
    transposed = list(TRANSPOSED.guesses(f))
    if not transposed and not phase:
        yield from better_lanes(trials, plain, trials.ranked(EACH_AXIS.guesses(f)))
    plain |= dict.fromkeys(transposed, 0.0)  # tiles in scratch beat strided accesses whatever the width
    chains_of_columns = map(trials.legal, COLUMN_CHAINS.guesses(f))
    plain |= {o: 0.0 for o in chains_of_columns if o is not None}  # (the model knows nothing of chains that end in every row)
    yield from sorted(plain, key=plain.__getitem__)


def _better_tiles(f: StartFacts, groups: list[Opts]) -> Iterator[Opts]:
    """Groups of neighbours, after those tiles of results that share them which are better by the model."""
    if groups:
        least = min(map(f.trials.seconds, groups))
        yield from (o for o in f.trials.ranked(REUSED_READS.guesses(f))[:TILES] if f.trials.seconds(o) < least)
    yield from groups


# the quick choice -----------------------------------------------------------------------------------------------------
COST = 9.5
"""What all guesses of a kernel may cost together; applying and estimating one costs `EACH`, and `NODE` for every
expression of its nests. The units are about milliseconds of a server's core."""
EACH, NODE = 1.3, 0.03
MOST = 4
MORE = 4
"""Guesses more about few rows: of their tiles and of the order in which the other operand is read."""
OTHERS = 20.0
"""What guesses with lanes along other axes may cost beside them."""
FAR_FASTER, COUNTED = 1.25, 2
"""How many times as fast such a schedule must be, by both models; and how many are counted, best first."""
LONG, CLEARLY = 200e-6, 1.1
"""Seconds of a product from which on the two best are counted; and how many times as fast the second must be then, or by both models another
tile of residue classes than the closed form's first."""
SHORT = 10e-6
"""Seconds of a kernel that single changes would have to save thousands of calls to pay for the asking."""
CHANGES = 12.0
"""What the guesses for each single change of the best may cost."""
NOT_FOLDED = 3.0
"""How many times as fast as a fold the model must take rows to be."""
PACKED_FIRST = 3
"""How many of what was found are asked about with constant inputs packed."""
WORTH = 0.01
"""The share of a call's time that packing once must save."""


class _Choice:
    """The guesses that were tried so far, and what the model says of each; at most as many as the kernel's size allows."""

    def __init__(self, f: StartFacts) -> None:
        self.f, self.trials = f, f.trials
        self.found: dict[Opts, float] = {}
        self.most = most_guesses(f.kernel)

    def ask(self, wish: Opts) -> float | None:
        """Predicted seconds of what is legal of `wish`; None where nothing is, or enough was asked."""
        if len(self.found) >= self.most:
            return None
        opts = self.trials.legal_at_once(wish)
        if opts is None:
            return None
        if opts not in self.found:
            doubt = build_doubt(self.trials.apply(opts)) if self.f.target.kind == "gpu" else 1.0
            if doubt == math.inf:
                return None
            self.found[opts] = doubt * self.trials.seconds(opts)
        return self.found[opts]

    def ask_all(self, wishes: Iterable[Opts]) -> None:
        """Ask about wishes in turn, until enough was asked."""
        for wish in wishes:
            if len(self.found) >= self.most:
                return
            self.ask(wish)

    def take_first(self, wishes: Iterable[Opts]) -> bool:
        """Take the first of some wishes that is legal, without asking; whether there is one."""
        first = next((o for w in wishes if (o := self.trials.legal_at_once(w)) is not None), None)
        if first is not None:
            self.found[first] = 0.0
        return first is not None

    def best_first(self) -> list[Opts]:
        """What was asked, as the model ranks it."""
        return sorted(self.found, key=lambda o: (self.found[o], str(o)))


def most_guesses(kernel: Kernel) -> int:
    """How many guesses the model is asked about: fewer for kernels with long expressions."""
    return max(2, min(MOST, int(COST / guess_cost(kernel))))


def guess_cost(kernel: Kernel) -> float:
    """What asking about one guess costs."""
    return EACH + NODE * sum(len(n.all_nodes) for n in nests(kernel))


def quick_starts(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT) -> list[Opts]:
    """Few legal start schedules, best guess first; never empty. Deterministic: nothing is timed. `allowed`: effects that they may
    have on GPUs."""
    if kernel.blocks is not None:
        return blocked_starts(kernel, target, threads, quick_starts(undecided(kernel), target, threads, allowed), quick=True)
    f = StartFacts(kernel, target, threads, allowed)
    found = _by_rules(f)
    return _with_changes(f, found) if target.kind == "cpu" else found


def _with_changes(f: StartFacts, found: list[Opts]) -> list[Opts]:
    """Schedules, best guess first, after what single changes of the first lead to, but where a rule knows what the model does not."""
    if f.trials.seconds(found[0]) < SHORT or any(
        next(iter(rule.guesses(f)), None) is not None for rule in (SCALED_BYTES, RESIDUES, ENTRIES, TRANSPOSED)
    ):
        return found
    better = changed(f.trials, found[0], int(CHANGES / guess_cost(f.kernel)))
    return found if better is None else list(dict.fromkeys((better, *found)))


def _by_rules(f: StartFacts, part: bool = False) -> list[Opts]:
    """What rules give. `part`: it is one of the kernels of a schedule with phases for values (`hoisted`)."""
    kernel, target, threads = f.kernel, f.target, f.threads
    choice, trials = _Choice(f), f.trials
    if target.kind == "gpu":
        choice.ask_all(_gpu_wishes(f))
        return list(dict.fromkeys((*choice.best_first(), ())))
    if bytes_first := _of_bytes(f):
        return [*bytes_first, ()]
    _ask_rules(choice)
    streams = with_early_exits(trials, streamed(trials, joined_places(trials, choice.best_first()), 1))
    parts: dict[Kernel, StartFacts] = {}

    def least(k: Kernel) -> float:
        parts[k] = facts = _facts(k, f)
        facts.trials.counts = False  # (what is counted only leads to what is estimated to be slower)
        seconds = facts.trials.seconds(_by_rules(facts, part=True)[0])
        facts.trials.counts = trials.counts
        return seconds

    def starts_of_part(k: Kernel) -> list[Opts]:
        return _by_rules(parts.get(k) or _facts(k, f), part=True)

    constants = any(b.constant for b in kernel.inputs)  # (they may be packed for what would be left out)
    found = list(hoisted(trials, streams, starts_of_part, 1, part, least=None if constants else least))
    packed = _Choice(StartFacts(kernel, target, threads))
    if constants:
        packed.ask_all(constant_starts(kernel, target, threads, found[:PACKED_FIRST]))
        found = _packed_where_quicker(trials, packed, found)
    return list(dict.fromkeys((*found, ())))


def _facts(kernel: Kernel, f: StartFacts) -> StartFacts:
    """The facts of a kernel that a schedule makes of the facts' own."""
    facts = StartFacts(kernel, f.target, f.threads, f.allowed)
    facts.trials.counts = f.trials.counts
    return facts


def _quick(kernel: Kernel, f: StartFacts) -> list[Opts]:
    """What rules give for a kernel that a schedule makes of the facts' own."""
    return _by_rules(_facts(kernel, f))


def _packed_where_quicker(trials: Trials, packed: _Choice, found: list[Opts]) -> list[Opts]:
    """Schedules, after those with inputs packed once that are worth the memory of a copy."""
    least = min((trials.seconds(o) for o in found), default=math.inf)
    return [*(o for o in packed.best_first() if packed.found[o] <= (1 - WORTH) * least), *found]


def _ask_rules(choice: _Choice) -> None:
    """Ask the first kind of rules that has a legal guess: as in the ranked choice, what has a fold's start schedules needs no other."""
    f = choice.f
    if _take_residues(choice):
        return
    if choice.take_first(ENTRIES.guesses(f)):
        return
    near = next(GROUPS.guesses(f), None)
    if near is not None:
        choice.found[near] = 0.0
        return
    if _ask_phases(choice):
        return
    if not any(stepped(f.kernel, c.nest) for c in f.contractions) and _take_fold(choice):
        return
    main = f.main
    if few_against_rows(f):
        choice.ask_all(islice(ROWS_AGAINST_ROWS.guesses(f), len(WIDE)))
        return
    if main is not None and any(extent(a) > 1 for a in main.rows):
        against = next(chain(ROWS_AGAINST_ROWS.guesses(f), ALONG_ROWS.guesses(f)), None)
        if against is not None:  # beside the contraction's own: where the sum is one of blocks, say, nothing else is near it
            choice.most += choice.ask(against) is not None
        choice.most += MORE * few_rows(main)
        ask_contractions(choice.trials, main, choice.ask)
        if choice.found:
            _count_two(choice)
            return
    transposed = next((o for o in TRANSPOSED.guesses(f) if choice.trials.legal(o) is not None), None)
    if transposed is not None:  # tiles in scratch beat strided accesses whatever the width
        choice.ask(transposed)
        return
    wishes = _row_wishes(f)
    if main is not None:  # each operand is used for one row of results, so it is a row kernel as much
        choice.ask_all(islice(wishes, 2))
        ask_contractions(choice.trials, main, choice.ask)
    choice.ask_all(wishes)
    _ask_other_lanes(choice)


def _take_fold(choice: _Choice) -> bool:
    """Whether the likeliest fold is taken. It is hardly ever worse than another, so no other is asked about; but where blocks of a fold are few and
    narrow, plain rows may be many times as fast."""
    f, trials = choice.f, choice.trials
    fold, rows = (next((o for w in rule.quick(f) if (o := trials.legal_at_once(w)) is not None), None) for rule in (FOLDS, ROWS))
    if fold is None or (rows is not None and NOT_FOLDED * trials.seconds(rows) < trials.seconds(fold)):
        return False
    choice.found[fold] = 0.0
    return True


def _ask_other_lanes(choice: _Choice) -> None:
    """Ask about lanes along each axis in turn, and take the best of those that are far faster by the estimate and by what their Programs count:
    either alone is wrong too often where schedules differ so much (of 54 kernels 20 were slower by the estimate's choice)."""
    trials, plain = choice.trials, {**choice.found}
    if not plain:
        return
    best = min(plain, key=plain.__getitem__)
    choice.most = len(plain) + int(OTHERS / guess_cost(choice.f.kernel))
    choice.ask_all(EACH_AXIS.guesses(choice.f))
    others = [o for o in choice.found if o not in plain]
    choice.found = plain | {o: choice.found[o] for o in _faster_by_both(trials, best, others, FAR_FASTER)}


def _compare_fold(choice: _Choice) -> None:
    """Take, in place of a fold that a chain of reductions was made to, lanes along an axis where the geometric mean of both models is far better: of
    short sums that few results weigh (logarithms of bands, summed by a table: a third of the time). Attention's rows come nowhere near."""
    trials, fold = choice.f.trials, next(iter(choice.found))
    choice.found = {fold: trials.seconds(fold)}
    choice.most = 1 + int(OTHERS / guess_cost(choice.f.kernel))
    choice.ask_all(EACH_AXIS.guesses(choice.f))
    others = [o for o in choice.best_first() if o != fold and choice.found[o] < choice.found[fold]][:COUNTED]
    if others:
        seconds = trials.ruler()
        times = {o: seconds(o) for o in others}
        best = min(others, key=times.__getitem__)
        if times[best] * FAR_FASTER < seconds(fold):
            choice.found = {best: 0.0, fold: choice.found[fold]}
            return
    choice.found = {fold: 0.0}


def _take_residues(choice: _Choice) -> bool:
    """Take, for sums told apart by residues, the likeliest tile with lanes along blocks, or the best of those with lanes along channels by the
    model, what both the estimate and the counts like better; whether there is one."""
    trials = choice.f.trials
    blocks, channels = list[Opts](), list[Opts]()
    for o in map(trials.legal_at_once, RESIDUES.guesses(choice.f)):
        if o is not None:
            (channels if any(x.op == "STAGE" for x in o) else blocks).append(o)
    likely = (_faster_by_both(trials, blocks[0], blocks[1:], CLEARLY) or blocks[:1]) if blocks else []
    likely += sorted(channels, key=trials.seconds)[:1]
    choice.found = dict.fromkeys(likely, 0.0) if len(likely) < 2 else dict(zip(likely, map(trials.ruler(), likely)))
    return bool(likely)


def _faster_by_both(trials: Trials, best: Opts, others: Iterable[Opts], times: float) -> list[Opts]:
    """The likeliest of some schedules that are so many times as fast as `best` by the estimate and by what their Programs count; none or one."""
    likely = sorted((o for o in others if trials.seconds(o) * times < trials.seconds(best)), key=trials.seconds)
    return [*islice((o for o in likely[:COUNTED] if trials.counted(o) * times < trials.counted(best)), 1)]


def _count_two(choice: _Choice) -> None:
    """Exchange the two best products where the second is clearly faster by what their Programs count: where estimates are close, the counts are
    right more often (of 65 products 8 changed so, 1.35 times as fast in the mean, 0.94 at least)."""
    found, (best, *second) = choice.found, choice.best_first()[:2]
    close = second and found[best] >= LONG and found[second[0]] < FAR_FASTER * found[best]
    if close and choice.trials.counted(second[0]) * CLEARLY < choice.trials.counted(best):
        found[best], found[second[0]] = found[second[0]], found[best]


def _ask_phases(choice: _Choice) -> bool:
    """Whether there is a guess of another order of contraction, of a computed operand, or of what needs a phase first: these save more
    than any schedule of the kernel as it is written."""
    f, trials = choice.f, choice.trials

    def quick(k: Kernel) -> list[Opts]:
        return _quick(k, f)

    if choice.take_first(online_starts(trials, quick)):  # as for a kernel that is written as a fold
        _compare_fold(choice)
        return True
    wishes = [*islice(phase_starts(trials, quick), 1)]
    wishes += [next(joined(trials, first, quick)) for first in phases_first(f.kernel, f.target)]
    choice.ask_all(wishes)
    for first, new, c in paired(f.kernel) if not wishes else ():

        def ask(wish: Opts, first: Opts = first, trials: Trials = Trials(new, f.target)) -> float | None:  # noqa: B008
            opts = trials.legal_at_once(wish)
            return None if opts is None else choice.ask((*first, *opts))

        ask_contractions(Trials(new, f.target, f.threads), c, ask)
    if choice.found:  # (rows against rows compute an operand where they read it)
        choice.ask_all(islice(ROWS_AGAINST_ROWS.guesses(f), len(WIDE)))
    return bool(choice.found)


def _row_wishes(f: StartFacts) -> Iterator[Opts]:
    """The quick guesses for everything that is no contraction: two of each special rule, plain rows, and the rest."""
    special = [rule.quick(f) for rule in SPECIAL]
    plain = ({"vectors": v, "copies": 1, "stage": 1} for v in (8, 4))
    if any(special):
        yield from chain.from_iterable(s[:2] for s in special)
        yield ROWS.schedule(f, f.kernel, next(plain))
        yield from chain.from_iterable(s[2:] for s in special)
        yield ROWS.schedule(f, f.kernel, next(plain))
    yield from ROWS.quick(f)


# GPUs -----------------------------------------------------------------------------------------------------------------
#
# What a compiler would take long for, or find no registers for, is no start schedule (`benchmarks/gpu_starts.py` builds them all).

LONG_TEXT = 4500
"""Instructions of a text that takes a compiler longer than a start schedule may."""
MERGED = 1100
"""The same where a fold's partial results are merged as well."""
REGISTERS = 224
"""Registers above which a thread's are likely to be spilled."""
TIGHT = 288
"""Registers that a compiler often still fits into those of a thread, since not all of a fold's are needed at once (attention's backward
pass, head size 128: 246 to 294 by the estimate spill 0 to 44 bytes, 296 and more 1100; NVRTC 13.0)."""
DOUBT = 2.0
"""By how much such a schedule must be faster."""
SAFE = 0.75
"""The share of a multiprocessor's registers that a group may be expected to take: estimates are about that good."""
ALIKE = 2
"""Start schedules of one tile that come before those of others."""
LEAST_WARP = 31 << 10
"""Bytes of shared memory that leave too few groups of one warp on a multiprocessor."""


def _gpu_ranked(f: StartFacts) -> list[Opts]:
    """Legal start schedules of a GPU, as the model ranks them."""
    kernel, target, trials = f.kernel, f.target, f.trials
    ranked: dict[str, tuple[float, str, Opts]] = {}
    # a driver for processors has no grid of its own accord
    grid = tuple(opt("PARALLEL", str(a.arg.name)) for a in shared_axes(kernel)) if target.kind == "cpu" else ()
    fused, tiny = with_rows(kernel, target), tiny_copies(kernel)
    for wish in chain.from_iterable(rule.guesses(f) for rule in GPU_RULES):
        for more in (tiny, ()) if tiny and all(o.op != "TC" for o in wish) else ((),):
            opts = trials.legal_at_once((*grid, *wish, *more, *fused))
            if opts is None:
                continue
            s = trials.apply(opts)
            if s.hash not in ranked and s.effects <= f.allowed and (doubt := build_doubt(s)) < math.inf:
                ranked[s.hash] = (doubt * estimate_gpu(s), str(opts), opts)
    return _varied([opts for _, _, opts in sorted(ranked.values())])


def _gpu_wishes(f: StartFacts) -> Iterator[Opts]:
    """The quick guesses for a GPU, perhaps illegal, the likeliest first."""
    fused, tiny = with_rows(f.kernel, f.target), tiny_copies(f.kernel)
    for rule in GPU_RULES:
        for wish in rule.quick(f):
            yield (*wish, *(tiny if all(o.op != "TC" for o in wish) else ()), *fused)


def _varied(found: list[Opts]) -> list[Opts]:
    """The same in another order: what differs in its rings and blocks alone from ALIKE better ones comes after all
    others, so that the first few are not one tile over and over."""
    counts: dict[Opts, int] = {}
    first: list[Opts] = []
    later: list[Opts] = []
    for opts in found:
        kind = tuple(o for o in opts if o.op in ("TC", "LOCAL", "GROUP", "UPCAST", "SPLIT"))
        counts[kind] = counts.get(kind, 0) + 1
        (first if counts[kind] <= ALIKE else later).append(opts)
    return first + later


def build_doubt(s: Scheduled) -> float:
    """By what to multiply the time that the model says: 1 where a compiler is likely to build it soon, without spilling registers; more
    where it may not; infinity where it will not, or where a warp alone fills a multiprocessor's shared memory."""
    if s.phases:
        return max(build_doubt(p) for p in s.phases)
    if s.target.kind != "gpu" or not s.opts:
        return 1.0
    shared = sum(st.bytes for st in s.stages.values())
    merges = any(isinstance(i, FoldItem) for i in s.items)
    if (s.group <= s.target.warp and shared > LEAST_WARP) or statements(s, DEFAULT.gpu) > (MERGED if merges else LONG_TEXT):
        return math.inf
    g, registers = DEFAULT.gpu, thread_registers(s, chip_of(s.target, DEFAULT.gpu))
    if registers <= (register_limit(s, g) if consumers(s) else min(REGISTERS, SAFE * g.file / max(1, s.group))):
        return 1.0
    tight = merges and not consumers(s) and registers <= TIGHT and min(g.registers, registers) * s.group <= g.file
    return DOUBT if tight else math.inf


# templates ------------------------------------------------------------------------------------------------------------
def templates(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT) -> list[Template]:
    """The templates that fit a kernel's structure, most specific first. `allowed`: effects that they may have on GPUs."""
    if kernel.blocks is not None:
        return [_in_blocks(kernel, t) for t in templates(undecided(kernel), target, threads, allowed)]
    f = StartFacts(kernel, target, threads, allowed)
    if target.kind == "gpu":
        return [t for rule in GPU_TEMPLATES for t in rule.templates(f)]
    out = _phase_templates(f)
    if out and much_cheaper(kernel):
        return out
    found = [list(rule.templates(f)) for rule in CPU_TEMPLATES]
    computed = [contraction_template(new, target, threads, c, first) for first, new, c in paired(kernel)]
    return [*out, *found[0], *computed, *chain.from_iterable(found[1:])]


def _in_blocks(kernel: Kernel, inner: Template) -> Template:
    """A template of the same kernel without decided blocks; the sizes of these are parameters beside its own."""
    assert kernel.blocks is not None
    axes, allowed = kernel.blocks.axes, allowed_sizes(kernel)
    params = {f"block {a}": tuple(sorted({s[k] for s in allowed})) for k, a in enumerate(axes)}

    def make(p: Numbers) -> Opts:
        sizes = tuple(p[f"block {a}"] for a in axes)
        return fitted(kernel, inner.make({k: v for k, v in p.items() if k not in params}), sizes)

    return Template(inner.name, {**inner.params, **params}, make)


def _phase_templates(f: StartFacts) -> list[Template]:
    """Of kernels that are better in several phases, a template for each phase: its numbers are open, the other phases have their quick
    start schedules."""
    out = []
    for first in (order_opts(f.kernel), *phases_first(f.kernel, f.target)):
        kernels = [p.kernel for p in apply(f.kernel, first, f.target).phases] if first else []
        each = [_quick(k, f)[0] for k in kernels]
        for i, k in enumerate(kernels):
            inner = templates(k, f.target, f.threads)[0]

            def make(p: Numbers, first: Opts = first, i: int = i, inner: Template = inner, each: list[Opts] = each) -> Opts:
                return together(first, [*each[:i], inner.make(p), *each[i + 1 :]])

            out.append(Template(f"phase {i}: {inner.name}", inner.params, make))
    return out


# what was thought -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Proposal:
    """A guess of a rule: what is legal of it, and what the model says it takes, in seconds."""

    rule: str
    opts: Opts
    seconds: float


def proposals(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT) -> Mapping[str, list[Proposal]]:
    """What every rule that applies proposes, each schedule once, best first, by the names of the rules in their order. What options make
    several phases of, and what is added to found schedules, is in `starts` alone."""
    plain = undecided(kernel) if kernel.blocks is not None else kernel
    f = StartFacts(plain, target, threads, allowed)
    out: dict[str, list[Proposal]] = {}
    for rule in GPU_RULES if target.kind == "gpu" else CPU_RULES:
        legal = [o for o in f.trials.ranked([*rule.guesses(f), *rule.quick(f)]) if o]
        if legal:
            out[rule.name] = [Proposal(rule.name, o, f.trials.seconds(o)) for o in legal]
    return out
