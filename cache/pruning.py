"""Which rows of a cache nobody would miss, what would be missed of the others, and the space of deleted rows given back to the disk.

PruneRules find rows, and `plan` says for each rule how many. What answers a look-up of a key is never taken by `superseded`,
`old-tools` and `tried`. Only `target` and `idle`, which delete all that was measured for some targets, lose answers,
and `Pruning.lost` names them before anything is done."""

from __future__ import annotations

import contextlib
import sqlite3
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

from .file_check import CacheWarning, classify
from .keys import Key
from .ranking import answers
from .rows import Row
from .version import tool_version

BEST = 8
"""Schedules of a key that `tried` keeps: the answer, and those that answer where today's code makes it no more."""
RULES = {
    "superseded": "measurements of a schedule that was measured again since",
    "old-tools": "other versions' measurements, where this version's answer",
    "tried": f"what searches tried and is not among the {BEST} best of its key",
    "idle": "targets that nothing was measured for lately",
    "target": "targets that are named",
}


@dataclass(frozen=True, slots=True)
class PruneRules:
    """What is asked for. `targets`: patterns of target keys, * for anything; `idle_days`: targets without a newer
    measurement than so many days; `before`: only rows measured before this moment (UTC, ISO 8601), for the first three rules."""

    superseded: bool = False
    old_tools: bool = False
    tried: bool = False
    idle_days: int | None = None
    targets: tuple[str, ...] = ()
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Pruning:
    """What pruning deletes: `rows`, each once; `by_rule`: how many each rule found, those asked for first; `lost`: the answers
    that are gone afterwards, the rows themselves; `kept`: rows of older tools that stay because nothing newer answers."""

    rows: tuple[Row, ...]
    by_rule: Mapping[str, int]
    lost: tuple[Row, ...]
    kept: int = 0
    total: int = 0
    targets: Mapping[str, int] = field(default_factory=dict)
    """Rows that go, by target."""


def plan(rows: Iterable[Row], rules: PruneRules, tool: str | None = None, today: datetime | None = None) -> Pruning:
    """What `rules` find among `rows` (a whole cache's). `tool`: the present code's digest; `today`: for `idle_days`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CacheWarning)  # of pins that failed: whoever looks them up is told
        return _plan(list(rows), rules, tool or tool_version(), today or datetime.now(UTC))


def _plan(held: Sequence[Row], rules: PruneRules, tool: str, today: datetime) -> Pruning:
    groups: dict[Key, list[Row]] = defaultdict(list)
    for row in held:
        groups[row.key].append(row)
    asked = {"superseded": rules.superseded, "old-tools": rules.old_tools, "tried": rules.tried}
    by_rule = dict.fromkeys(RULES, 0)
    gone: set[str] = set()
    kept = 0
    for measured in groups.values():
        some, stay = _of_key(measured, tool, rules)
        kept += stay
        for name, digests in some.items():
            by_rule[name] += len(digests)
        both = set().union(*(digests for name, digests in some.items() if asked[name]))
        gone |= both if not list(_lost([measured], both)) else some["superseded"]
    dead = dead_targets(held, rules, today)
    for row in held:
        if (rule := dead.get(row.target)) is not None:
            by_rule[rule] += 1
            gone.add(row.digest)
    doomed = tuple(r for r in held if r.digest in gone)
    by_target: dict[str, int] = defaultdict(int)
    for r in doomed:
        by_target[r.target] += 1
    lost = tuple(sorted(_lost(groups.values(), gone), key=lambda r: (r.target, r.name, r.dtype, r.shape, r.threads, r.digest)))
    return Pruning(doomed, by_rule, lost, kept if rules.old_tools else 0, len(held), dict(sorted(by_target.items())))


def dead_targets(rows: Sequence[Row], rules: PruneRules, today: datetime) -> dict[str, str]:
    """The rule by which each dead target is dead."""
    newest: dict[str, str] = {}
    for r in rows:
        newest[r.target] = max(r.when, newest.get(r.target, ""))
    out: dict[str, str] = {}
    if rules.idle_days is not None:
        limit = (today - timedelta(days=rules.idle_days)).astimezone(UTC).isoformat(timespec="microseconds")
        out = {t: "idle" for t, when in newest.items() if when < limit}
    for t in newest:
        if any(fnmatchcase(t, p) for p in rules.targets):
            out[t] = "target"
    return out


def _of_key(measured: Sequence[Row], tool: str, rules: PruneRules) -> tuple[dict[str, set[str]], int]:
    """What the rules that look at one key find there, and how many rows of older tools stay because they answer."""
    everything = {r.digest: r for r in measured}
    best = answers(measured)
    present = next((i for i, r in enumerate(best) if r.tool_version == tool), None)
    answering = {r.opts for r in best[: BEST if present is None else present + 1]}
    among = {r.opts for r in best[:BEST]}
    old = {r.digest for r in measured if r.tool_version != tool and not r.pinned}
    out = {
        "superseded": everything.keys() - _speaking(measured),
        "old-tools": {d for d in old if everything[d].opts not in answering},
        # where there are only failures, a search should not begin with them again
        "tried": {d for d, r in everything.items() if best and r.opts not in among and not r.pinned},
    }
    for name, digests in out.items():
        old_enough = {d for d in digests if rules.before is None or everything[d].when < rules.before}
        same = [r.digest for r in best] if name == "superseded" else [r.digest for r in best[:1]]
        after = [r.digest for r in answers(everything[d] for d in everything.keys() - old_enough)]
        # a reason to answer that a rule does not know: then it leaves the key as it is
        out[name] = old_enough if after[: len(same)] == same else set()
    return out, len(old - out["old-tools"])


def _speaking(measured: Sequence[Row]) -> set[str]:
    """The rows of each schedule that say whether and how well it answers: the newest, the newest one with a time, the best
    checked one, and pins. Of those measured here and of those from elsewhere."""
    schedules: dict[str, list[Row]] = defaultdict(list)
    for r in sorted(measured, key=lambda r: (r.when, r.digest)):
        schedules[r.opts].append(r)
    keep: set[str] = set()
    for of_one in schedules.values():
        keep.update(r.digest for r in of_one if r.pinned)
        keep.update(r.digest for r in answers(of_one))
        for some in ([r for r in of_one if not r.imported], of_one):
            keep.update(r.digest for r in some[-1:])
            keep.update(r.digest for r in [r for r in some if r.t_med is not None][-1:])
    return keep


def _lost(groups: Iterable[Sequence[Row]], gone: set[str]) -> Iterator[Row]:
    """The first answers of the keys that have none afterwards, or another one."""
    for measured in groups:
        if not any(r.digest in gone for r in measured):
            continue
        before = answers(measured)
        after = answers([r for r in measured if r.digest not in gone])
        if before and (not after or after[0].opts != before[0].opts):
            yield before[0]


def compact(path: Path) -> tuple[int, int]:
    """Rewrite a cache file without its empty pages; (bytes before, bytes after). It needs that much free space meanwhile.
    Raises CacheError, also while another process writes; then the file is as it was."""
    before = path.stat().st_size
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=2, isolation_level=None)) as c:
            c.execute("VACUUM")
            c.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error as e:
        raise classify(e, str(path)) from None
    return before, path.stat().st_size
