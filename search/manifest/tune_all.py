"""Tune everything that a manifest asks for and this machine can run, within one budget.

What is cached and valid costs nothing, unless it may go on; what is left of the budget is spent where it is worth most (`search.outlook.Spending`): time that
one entry did not use flows on to the others. An entry that fails does not end the run, Ctrl-C does, and
what was tuned before stays."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...cache.keys import DEFAULT_POLICY, Key, for_text, with_numerics
from ...cache.objective_types import TIME
from ...cache.version import tool_version
from ...ir.dtypes import dtype
from ...ir.errors import DeviceError, OutOfTimeError, TilewrightError, UsageError
from ...ir.normal_form import normalise
from ...plan.identity import canonical_of, opts_of
from ...targets import Target, named
from .. import strategy as strategies
from ..budget import DEFAULT_SECONDS, SPENT, Budget
from ..interrupts import Deadline, OutOfTime
from ..outlook import Spending

if TYPE_CHECKING:
    from ...cache import Cache, Row
    from ...devices import Device
    from ...targets import Target
    from ..budget import Budget
    from ..progress import Progress
    from ..result import Result
    from .manifest_file import Entry, Manifest, Place


LEAST_S = 1.0
"""Seconds that an entry gets at least, however little is left: enough for its start schedules."""
TUNED, CACHED, FAILED, ELSEWHERE, INTERRUPTED, LEFT = "tuned", "cached", "failed", "elsewhere", "interrupted", "left"
"""What can come of an entry. 'elsewhere': its target is not here; 'left': not begun before Ctrl-C, or, with
a message, before the budget was spent."""


@dataclass(frozen=True, slots=True)
class Done:
    """What came of an entry; `result` for those tuned, cached, or interrupted with an answer."""

    entry: Entry
    status: str
    result: Result | None = None
    message: str = ""


class Overall:
    """How far a run is: for whoever shows it. `done` grows; `busy`: an entry is being tuned."""

    def __init__(self, total: int, seconds: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.total, self.seconds, self._clock = total, seconds, clock
        self.started = clock()
        self.done: list[Done] = []
        self.busy = False

    @property
    def left(self) -> float | None:
        """Seconds left of the whole budget, None without one."""
        return None if self.seconds is None else self.seconds - (self._clock() - self.started)

    def line(self) -> str:
        """`3/12, 2 cached, 1 failed, 2:10 left`."""
        counts = Counter(d.status for d in self.done)
        parts = [
            f"{len(self.done) + self.busy}/{self.total}",
            *(f"{counts[s]} {s}" for s in (CACHED, TUNED, FAILED, ELSEWHERE) if counts[s]),
        ]
        if self.left is not None:
            whole = max(0, round(self.left))
            parts.append(f"{whole // 60}:{whole % 60:02d} left")
        return ", ".join(parts)


Show = Callable[["Entry", float | None, int | None, Overall], AbstractContextManager["Progress"]]
"""Makes the display of one entry from its share in seconds, its trials, and the whole; entered around its search."""


def here(place: Place) -> tuple[Device, int]:
    """The device and threads of a target that is on this machine. Raises DeviceError with the reason where it is not."""
    from ...devices import get

    device = get(place.device)
    device.check()
    key, _ = target_of(place)
    if not like(device.target.key, key):
        raise DeviceError(f"the device {place.device} here is {device.target.key}, not {key}")
    if place.compiler is not None and not like(device.compiler_id(), place.compiler):
        raise DeviceError(f"the compiler here is {device.compiler_id()}, not {place.compiler}")
    return device, place.threads or device.threads


def tune_all(
    manifest: Manifest,
    cache: Cache,
    *,
    seconds: float | None = None,
    trials: int | None = None,
    again: bool = False,
    further: bool = False,
    strategy: str | None = None,
    until: Budget | None = None,
    show: Show,
    told: Callable[[Done, Overall], None] = lambda d, o: None,
    clock: Callable[[], float] = time.monotonic,
) -> list[Done]:
    """One Done for each entry, in the manifest's order; `told` hears of each as it is known.

    `seconds`: the budget of all (None: each has its own, by default 30 s unless `trials` are given); `trials`:
    measurements of each entry; `until`: a plateau or a share of the roofline that ends each of them; `again`: tune what is cached too; `further`: of a budget of
    all, what is cached has a part too where more search is expected to gain enough; `strategy` goes before what the manifest says.
    Raises CacheError where the cache cannot be written; everything else is a Done."""
    overall = Overall(len(manifest.entries), seconds, clock)
    results: dict[int, Done] = {}
    spent = ""

    def conclude(i: int, done: Done) -> None:
        results[i] = done
        overall.done.append(done)
        told(done, overall)

    def bounded(entry: Entry) -> bool:  # more is not searched than was asked for
        return trials is not None or entry.trials is not None or entry.budget is not None

    strategy = strategies.check(strategy) if strategy is not None else None
    cache.begin_writing()
    try:
        with Deadline(seconds, time.monotonic()):
            todo: list[tuple[int, Entry, Device, int]] = []
            earlier: dict[int, float | None] = {}
            for i, entry, where in _located(manifest.entries):
                if isinstance(where, str):
                    conclude(i, Done(entry, ELSEWHERE, message=where))
                elif not again and (found := _cached(entry, where[0], where[1], cache)) is not None:
                    conclude(i, found)
                    if further and not bounded(entry) and found.result is not None:
                        earlier[len(todo)] = found.result.minute
                        todo.append((i, entry, *where))
                else:
                    todo.append((i, entry, *where))
            if len(todo) > len(earlier) or any(earlier.values()):
                cache.ensure_writable()
            spending = Spending([e.weight for _, e, *_ in todo], lambda: overall.left, earlier)
            for n, given, more in spending:
                i, entry, device, threads = todo[n]
                if not more and overall.left is not None and overall.left <= 0:
                    conclude(i, Done(entry, LEFT, message=SPENT))
                    continue
                overall.busy = not more
                share = _share(entry, given, trials, until)
                done = _tune(entry, device, threads, cache, share, trials, again or more, strategy, until, show, overall)
                overall.busy = False
                spending.minute[n] = None if done.result is None or bounded(entry) else done.result.minute
                if given is not None and done.result is None and done.message.startswith(SPENT):
                    spending.failed(n, given)
                if not more:
                    conclude(i, done)
                elif done.status == TUNED:
                    overall.done[overall.done.index(results[i])] = results[i] = done
                    told(done, overall)
                if done.status == INTERRUPTED:
                    break
    except KeyboardInterrupt:  # between two entries
        pass
    except OutOfTimeError as e:
        spent = str(e)
    return [results.get(i) or Done(entry, LEFT, message=spent) for i, entry in enumerate(manifest.entries)]


def _located(entries: Sequence[Entry]) -> Iterator[tuple[int, Entry, tuple[Device, int] | str]]:
    """Each entry with its device and threads, or the reason why it cannot be tuned here."""
    known: dict[Place, tuple[Device, int] | str] = {}
    for i, entry in enumerate(entries):
        if entry.place not in known:
            try:
                known[entry.place] = here(entry.place)
            except DeviceError as e:
                known[entry.place] = str(e)
        yield i, entry, known[entry.place]


def _cached(entry: Entry, device: Device, threads: int, cache: Cache) -> Done | None:
    """The entry's answer in the cache; a failure where even asking fails."""
    from ..api import cached

    # a budget that all share says nothing of one entry's; what the manifest gives to an entry does
    asked = Budget(entry.budget, entry.trials) if entry.budget is not None or entry.trials is not None else None
    try:
        found = cached(
            entry.tuned, entry.shape, entry.dtype or None, device, threads, cache, asked, entry.objective, with_numerics((), entry.numerics)
        )
    except TilewrightError as e:
        return Done(entry, FAILED, message=str(e))
    return None if found is None else Done(entry, CACHED, found)


def _share(entry: Entry, given: float | None, trials: int | None, until: Budget | None) -> float | None:
    """Seconds for an entry, of which the whole budget has some for it."""
    own = entry.budget
    if given is None:
        return own if own is not None or trials or entry.trials or (until and until.plateau) else DEFAULT_SECONDS
    return max(LEAST_S, given) if own is None else max(LEAST_S, min(given, own))


def _tune(
    entry: Entry,
    device: Device,
    threads: int,
    cache: Cache,
    share: float | None,
    trials: int | None,
    again: bool,
    strategy: str | None,
    until: Budget | None,
    show: Show,
    overall: Overall,
) -> Done:
    from ..api import tune

    most = trials if trials is not None else entry.trials
    ends = (None, None, None) if until is None else (until.stop_at, None, until.plateau)
    try:
        with show(entry, share, most, overall) as progress:
            result = tune(
                entry.tuned,
                entry.shape,
                dtype(entry.dtype) if entry.dtype else None,
                device,
                # an answer that is checked here is not searched for again because there happens to be time
                Budget(share, most, *ends, wish=entry.budget is not None or most is not None),
                threads=threads,
                strategy=strategy or entry.strategy,
                start=entry.start,
                random_seed=entry.random_seed,
                objective=entry.objective,
                numerics=entry.numerics,
                cache=cache,
                retune=again,
                progress=progress,
                interrupt="return",
            )
    except OutOfTime:  # the whole run's
        raise
    except KeyboardInterrupt:
        return Done(entry, INTERRUPTED)
    except TilewrightError as e:
        return Done(entry, FAILED, message=str(e))
    if result.exit_code == 130:
        return Done(entry, INTERRUPTED, result if result.found else None)
    return Done(entry, TUNED, result) if result.found else Done(entry, FAILED, result, result.message or "nothing valid was found")


# required ---------------------------------------------------------------------------------------------------
# Is what a manifest asks for in the cache? Answered by keys alone, on a machine that need not have the device.
#
# A key holds the target, the number of threads and the compiler's id. A named target gives the target key, the manifest
# the threads. The compiler id of the `cpu` device is this installation's llvmlite; other devices' ids, like a target
# key that is written with *, match what the cache holds. A row is valid when this version of the tool made it, or when
# its options still render the row's source; for a target that cannot be made from its key, or a kernel whose file is
# not run, that cannot be told, and the row counts as stale. Files that the manifest names are not run here: what their
# kernels are, its lock says (`manifest_lock`).


UNKNOWN = "unknown"
"""In place of a kernel's hash that nobody knows."""
LANGS = {"cpu": "llvm", "cpu:c": "c", "opencl": "opencl", "cuda": "cuda"}
"""What the built-in devices' code is written in."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an entry's key must be: `target` and `compiler` may hold *; `named` is the target to render for, where the
    manifest names one."""

    kernel: str
    target: str
    threads: int
    compiler: str
    named: Target | None = None
    objective: str = TIME
    policy: str = DEFAULT_POLICY

    def matches(self, key: Key) -> bool:
        """Whether this is such a key."""
        same = (key.kernel, key.threads, key.policy, key.objective) == (self.kernel, self.threads, self.policy, self.objective)
        return same and like(key.target, self.target) and like(key.compiler, self.compiler)

    def __str__(self) -> str:
        return f"kernel {self.kernel[:16]}, target {self.target}, {self.threads} thread{'s' * (self.threads != 1)}, compiler {self.compiler}{for_text(self.objective, self.policy)}"


@dataclass(frozen=True, slots=True)
class Checked:
    """`state`: 'present', 'stale' (`row` is there, made by other code) or 'missing'; `why` where that is not all there is to say."""

    entry: Entry
    wanted: Wanted
    state: str
    row: Row | None = None
    why: str = ""


def like(text: str, pattern: str) -> bool:
    """Equal, where * in the pattern stands for anything."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    last = rest.pop()
    end = len(text) - len(last)
    at = len(first)
    if not text.startswith(first) or not text.endswith(last) or end < at:
        return False
    # each part at the first place after the one before: no choice to go back on, whatever the number of stars
    for part in rest:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def target_of(place: Place) -> tuple[str, Target | None]:
    """(target key, in which * may stand; the target it names). Raises UsageError where the name and the device do not
    fit, DeviceError for no such name."""
    if ":" in place.target or "*" in place.target:
        return place.target, None
    found = named(place.target)
    lang = LANGS.get(place.device, LANGS.get(place.device.partition(":")[0]))
    if lang is not None and found.lang != lang:
        if {found.lang, lang} != {"llvm", "c"}:
            raise UsageError(
                f"target {place.name!r}: {place.target} is for {found.lang}, not for the device {place.device}; name a target of its own, or its key"
            )
        found = replace(found, lang=lang)
    return found.key, found


def wanted(entry: Entry) -> Wanted:
    """The key of an entry, as far as it can be told without the device. Raises UsageError where the manifest must say more."""
    place = entry.place
    target, named = target_of(place)
    threads = place.threads
    if threads is None:
        if place.device == "cpu" and place.target == "host":
            from ...targets import usable_cores

            threads = usable_cores()
        elif (named is not None and named.kind == "gpu") or place.device.startswith("cuda"):
            threads = 1
        else:
            raise UsageError(f"target {place.name!r} needs threads: how many {place.target} uses cannot be told here")
    compiler = place.compiler
    if compiler is None:
        compiler = "*"
        if place.device == "cpu":
            from ...devices.cpu.device import CpuDevice

            compiler = CpuDevice().compiler_id()
    hash = (
        canonical_of(normalise(entry.made)).hash if entry.made is not None else entry.record.kernel if entry.record is not None else UNKNOWN
    )
    return Wanted(hash, target, threads, compiler, named, entry.objective, entry.policy)


def check(entry: Entry, cache: Cache) -> Checked:
    """Look an entry up; never builds, runs or measures anything."""
    want = wanted(entry)
    if want.kernel == UNKNOWN:
        return Checked(entry, want, "missing", why=entry.why)
    if "*" in want.target + want.compiler:
        rows = cache.rows(kernel=want.kernel, threads=want.threads, policy=want.policy, verified=True, outcome="ok")
        keys = [k for k in dict.fromkeys(r.key for r in rows) if want.matches(k)]
    else:
        keys = [Key(want.kernel, want.target, want.threads, want.compiler, want.policy, want.objective)]
    found = [row for key in keys for row in cache.answers(key)]
    for row in found:
        if _valid(entry, want, row):
            return Checked(entry, want, "present", row)
    if not found:
        return Checked(entry, want, "missing")
    why = "" if entry.made is not None else "made by other code of Tilewright, and without --trust the kernel's file is not run to compare"
    return Checked(entry, want, "stale", found[0], why)


def _valid(entry: Entry, want: Wanted, row: Row) -> bool:
    """Whether the row's options still apply, and mean the source that was measured."""
    target = want.named if want.named is not None and want.named.key == row.target else rebuilt(row.target)
    if target is None or entry.made is None:
        return row.tool_version == tool_version()
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render

    kernel = normalise(entry.made)
    try:
        scheduled = apply(kernel, opts_of(row, canonical_of(kernel)), target)
        return row.tool_version == tool_version() or render(lower(scheduled), target).sha == row.source_sha
    except TilewrightError:
        return False


def rebuilt(key: str) -> Target | None:
    """The target of a key, as far as code for it goes: caches and cores, which a processor's key leaves out, are
    nominal. None for keys that do not say enough."""
    from ...targets.table import lookup, vector_shape

    lang, *parts = key.split(":")
    if lang not in ("llvm", "c") or len(parts) != 3:
        return None
    arch, cpu, flags = parts
    features = frozenset(flags.split("+")) if flags else frozenset()
    known = lookup(cpu)
    if known is not None and known.arch == arch and known.features == features:
        return replace(known, lang=lang)
    return Target(cpu, lang, arch, cpu, features, *vector_shape(arch, features), 1, 32 << 10, 256 << 10, 4 << 20)
