"""A sweep file: a manifest whose shapes are formulas over the values of models.

    [targets.server]
    device = "cpu"
    target = "znver5"
    threads = 16

    [defaults]
    dtypes = ["float32", "bfloat16"]
    budget = "30s"

    [models.small]
    hidden = 768
    tokens = [1, 128, 1024]        # every one of them

    [models.large]
    hidden = 4096
    tokens = [1, 1024]

    [[kernel]]
    name = "matmul"
    shape = { m = "tokens", n = "4*hidden", k = "hidden" }

Everything else is as in a manifest (`search.manifest.manifest_file`), `shapes` in place of `shape` too. A kernel is tuned for every
model that has all the values that its shape names, or for those that its `models` lists. Each shape is tuned once, however many
models need it."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal

from ...cache.rows import now
from ...files.strict import Misread, canon, parse
from ...files.strict import read as read_data
from ...files.write_file import content
from ...ir.errors import UsageError
from .. import expressions
from ..expressions import Expression
from . import manifest_file as manifests
from .manifest_file import Lines, Manifest, near

if TYPE_CHECKING:
    from .manifest_file import Entry
    from .tune_all import Done


MAX_TEXT = 200
MOST = 1 << 48
"""No extent is larger."""


def formula(text: str) -> Expression:
    """An extent as a formula over a model's values: `4*hidden`, `(tokens+127)//128*128`. Raises UsageError for what is none."""
    if len(text) > MAX_TEXT:
        raise UsageError(f"the formula {text[:MAX_TEXT]!r} is longer than {MAX_TEXT} characters")
    return expressions.parse(text, what="the formula")


def extent(of: Expression, values: Mapping[str, int]) -> int:
    """What a formula is with these values. Raises UsageError, also for a division by zero and a result that is no extent."""
    missing = [n for n in of.names if n not in values]
    if missing:
        raise UsageError(f"the formula {of.text!r} needs {missing[0]}, which has no value")
    found = of.whole(values, "the formula", 1)
    if found > MOST:
        raise UsageError(f"the formula {of.text!r} is larger than any extent")
    return found


MAX_VALUES = 1000
Shape = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """`models`: which models need an entry, by its `identity`, in the order of the file; none for shapes that stand there by themselves."""

    manifest: Manifest
    models: Mapping[str, tuple[str, ...]]

    def only(self, targets: Sequence[str] | None, models: Sequence[str] | None, known: Iterable[str]) -> Sweep:
        """The part for some targets and models; `known`: the models of the file. Raises UsageError for a name that is not there."""
        whole = self.manifest.only(targets)
        for name in models or ():
            if name not in (there := list(known)):
                raise UsageError(f"{whole.path} has no model {name!r}{near(name, there)}; it has {', '.join(there) or 'none'}")
        kept = tuple(e for e in whole.entries if not models or set(models) & set(self.models[identity(e)]))
        return Sweep(replace(whole, entries=kept), self.models)


def load(
    path: str | os.PathLike[str],
    files: manifests.Files = "inside",
    targets: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
) -> Sweep:
    """Read a sweep file, or the part of it for some targets and models. Raises UsageError naming file, line and table."""
    shown, text, data = manifests.toml(path)
    lines = Lines(text)
    known = _models(shown, lines, data.pop("models", {}))
    needs: dict[tuple[int, Shape], list[str]] = {}
    kernels = data.get("kernel", [])
    if isinstance(kernels, list) and all(isinstance(k, dict) for k in kernels):
        for i, k in enumerate(kernels):
            _expand(i, k, known, needs, lambda key, i=i: f"{shown}, line {lines.of('kernel', i, key)}, [[kernel]] {i + 1}")
    found = manifests.read(shown, text, data, files)
    at = {lines.of("kernel", i): i for i in range(len(kernels))}
    asked = {identity(e): tuple(needs.get((at[e.line], tuple(sorted(e.shape.items()))), ())) for e in found.entries}
    return Sweep(found, asked).only(targets, models, known)


def _models(shown: str, lines: Lines, tables: Any) -> dict[str, dict[str, list[int]]]:
    """The values of each model, as lists."""
    if not isinstance(tables, dict):
        raise UsageError(f"{shown}, line {lines.of('models')}: write each model as a table, [models.NAME]")
    out: dict[str, dict[str, list[int]]] = {}
    for name, table in tables.items():
        where = f"{shown}, line {lines.of(f'models.{name}')}, [models.{name}]"
        if not isinstance(table, dict) or not table:
            raise UsageError(f"{where}: a model has values, such as hidden = 768")
        out[name] = {}
        for key, given in table.items():
            listed = given if isinstance(given, list) else [given]
            if not key.isidentifier():
                raise UsageError(f"{where}: {key!r} cannot be named in a formula: use letters, digits and _")
            if not listed or len(listed) > MAX_VALUES or not all(type(v) is int and 0 <= v <= MOST for v in listed):
                raise UsageError(f"{where}: {key} must be a whole number or a list of them, not {given!r}")
            out[name][key] = list(dict.fromkeys(listed))
    return out


def _expand(
    i: int, k: dict[str, Any], known: Mapping[str, Mapping[str, list[int]]], needs: dict[tuple[int, Shape], list[str]], where: Any
) -> None:
    """Write the shapes of one [[kernel]] as a manifest has them."""
    listed = k.pop("models", None)
    if "shape" not in k:
        if listed is not None:
            raise UsageError(f"{where('models')}: models are for a `shape` of formulas")
        return
    if "shapes" in k:
        raise UsageError(f"{where('shape')}: give `shape` (formulas) or `shapes`, not both")
    given = k.pop("shape")
    tables = given if isinstance(given, list) else [given]
    if not tables or not all(isinstance(t, dict) and t and all(isinstance(v, str) or type(v) is int for v in t.values()) for t in tables):
        raise UsageError(f'{where("shape")}: write shape = {{ m = "tokens", n = "4*hidden" }}, or a list of such')
    if listed is not None and (not isinstance(listed, list) or not listed or not all(isinstance(m, str) for m in listed)):
        raise UsageError(f"{where('models')}: models must be a list of names")
    for m in listed or ():
        if m not in known:
            raise UsageError(f"{where('models')}: unknown model {m!r}{near(m, list(known))}; the file has {', '.join(known) or 'none'}")
    shapes: dict[Shape, dict[str, int]] = {}
    for table in tables:
        try:
            for model, shape in _shapes({n: str(f) for n, f in table.items()}, known, listed):
                key = tuple(sorted(shape.items()))
                shapes.setdefault(key, shape)
                if model and model not in needs.setdefault((i, key), []):
                    needs[i, key].append(model)
        except UsageError as e:
            raise UsageError(f"{where('shape')}: {e}") from None
    k["shapes"] = list(shapes.values())


def _shapes(
    table: Mapping[str, str], known: Mapping[str, Mapping[str, list[int]]], listed: Sequence[str] | None
) -> list[tuple[str, dict[str, int]]]:
    """(model, shape) for every model that a table of formulas is for, and every combination of its values."""
    formulas = {n: formula(f) for n, f in table.items()}
    wanted = sorted({n for f in formulas.values() for n in f.names})
    if not wanted:
        return [("", {n: extent(f, {}) for n, f in formulas.items()})]
    every = {n for values in known.values() for n in values}
    for n in wanted:
        if n not in every:
            raise UsageError(f"no model has a value {n!r}{near(n, sorted(every))}")
    out: list[tuple[str, dict[str, int]]] = []
    for model in listed or known:
        lacking = [n for n in wanted if n not in known[model]]
        if lacking and listed:
            raise UsageError(f"the model {model} has no {', '.join(lacking)}")
        if lacking:
            continue
        if (count := _count(known[model], wanted)) > manifests.MAX_ENTRIES:
            raise UsageError(f"the model {model} asks for {count} shapes, and a sweep has at most {manifests.MAX_ENTRIES} entries")
        for some in itertools.product(*(known[model][n] for n in wanted)):
            values = dict(zip(wanted, some, strict=True))
            out.append((model, {n: extent(f, values) for n, f in formulas.items()}))
    if not out:
        raise UsageError(f"no model has all of {', '.join(wanted)}")
    return out


def _count(model: Mapping[str, list[int]], wanted: Sequence[str]) -> int:
    found = 1
    for n in wanted:
        found *= len(model[n])
    return found


# sweep journal ----------------------------------------------------------------------------------------------
# The journal of a sweep: what was begun and how it ended, one JSON line each, on the disk before the next thing happens.
#
# What was found is in the cache, and only the cache says whether an entry is done. The journal knows what the cache cannot: which entries
# failed and why, and which were begun and never ended, because the process or the machine went away with them. An entry that was so lost
# twice is not begun a third time, unless somebody asks for it.


HEADER = {"tilewright": "sweep", "schema": 1}
BEGUN = "begun"
_HEAD = json.dumps(HEADER, sort_keys=True).encode()
ENDS = ("tuned", "cached", "failed", "interrupted")
FORGOTTEN = "forgotten"
"""What was said of the entry before counts no more."""
LOSSES = 2
"""How often an entry may be begun and not end."""
MAX_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class _JournalLine:
    """A line. `entry`: an `identity`; `t_min`: seconds."""

    entry: str
    event: Literal["begun", "forgotten", "tuned", "cached", "failed", "interrupted"]
    when: str
    title: str = ""
    message: str = ""
    t_min: float | None = None


@dataclass(slots=True)
class EntryStory:
    """What the journal says of an entry. `event`: the last one, '' where there is none; `lost`: how often in a row it was begun and did
    not end; `t_min`: seconds of what was found."""

    event: str = ""
    when: str = ""
    message: str = ""
    t_min: float | None = None
    lost: int = 0

    @property
    def deadly(self) -> bool:
        """Whether it took its process with it too often."""
        return self.lost >= LOSSES


def identity(entry: Entry) -> str:
    """16 hex digits of what an entry is: kernel, shape, element type and target."""
    p = entry.place
    what = [entry.kernel, sorted(entry.shape.items()), entry.dtype, p.name, p.device, p.target, p.threads, p.compiler]
    return hashlib.sha256(canon(what).encode()).hexdigest()[:16]


def path_of(sweep: str | os.PathLike[str]) -> Path:
    """Where the journal of a sweep is: `models.journal.jsonl` for `models.toml`."""
    return Path(sweep).with_suffix(".journal.jsonl")


def read(path: Path) -> dict[str, EntryStory]:
    """What a journal says, by `identity`; nothing where there is none. The last line may be torn. Raises UsageError for another file."""
    try:
        raw = content(path, MAX_BYTES)
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise UsageError(f"cannot read the journal {path}: {e.strerror}; name another with --journal") from None
    lines = raw[: raw.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()
    if not lines and _HEAD.startswith(raw):
        return {}  # it was begun, and nothing was written yet
    if raw and (not lines or _line(lines[0], path, 1) != HEADER):
        raise UsageError(f"{path} is not the journal of a sweep: name another with --journal, or delete it")
    out: dict[str, EntryStory] = {}
    for number, text in enumerate(lines[1:], 2):
        try:
            event = read_data(_JournalLine, _line(text, path, number))
        except Misread as e:
            raise UsageError(
                f"{path}, line {number}, is no event of a sweep ({e}): delete the line, or the journal to begin anew"
            ) from None
        if event.event == FORGOTTEN:
            out.pop(event.entry, None)
            continue
        story = out.setdefault(event.entry, EntryStory())
        story.event, story.when, story.message, story.t_min = event.event, event.when, event.message, event.t_min
        story.lost = story.lost + 1 if event.event == BEGUN else 0
    return out


def _line(text: str, path: Path, number: int) -> Any:
    try:
        return parse(text, f"{path}, line {number}")
    except Misread as e:
        raise UsageError(f"{e}: delete the line, or the journal to begin anew") from None


class SweepJournal:
    """A journal that is written; one process at a time. `stories`: what it said at first. Use it as a context."""

    def __init__(self, path: Path, forget: Iterable[Entry] = ()) -> None:
        """`forget`: entries of which nothing counts that it says. Raises UsageError where it is another file, is being written, or
        cannot be written."""
        self.path = path
        self.stories = read(path)
        self._file: IO[bytes] | None = None
        try:
            self._file = open(path, "ab")  # noqa: SIM115 — it stays open
            _lock(self._file, path)
            kept = _complete_bytes(path)
            self._file.truncate(kept)
            if not kept:
                self._write(HEADER)
            for i in (i for i in map(identity, forget) if self.stories.pop(i, None) is not None):
                self._write({"entry": i, "event": FORGOTTEN, "when": now()})
        except BaseException as e:
            if self._file is not None:
                self._file.close()
            if not isinstance(e, OSError):
                raise
            raise UsageError(f"cannot write the journal {path}: {e.strerror}; name another with --journal") from None

    def begun(self, entry: Entry) -> None:
        """An entry is about to be tuned."""
        self._write({"entry": identity(entry), "event": BEGUN, "when": now(), "title": entry.title})

    def ended(self, done: Done) -> None:
        """What came of an entry. That one is elsewhere or was left is no news."""
        if done.status in ENDS:
            found = {} if done.result is None or done.result.t_min is None else {"t_min": float(done.result.t_min)}
            said = {"entry": identity(done.entry), "event": done.status, "when": now(), "message": done.message[:1000]}
            self._write({**said, **found})

    def _write(self, said: dict[str, Any]) -> None:
        assert self._file is not None
        try:
            self._file.write(json.dumps(said, sort_keys=True).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as e:
            raise UsageError(f"cannot write the journal {self.path}: {e.strerror}; what was tuned is in the cache") from None

    def __enter__(self) -> SweepJournal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def deadly(entries: Iterable[Entry], stories: dict[str, EntryStory]) -> list[Entry]:
    """The entries that are not begun again."""
    return [e for e in entries if stories.get(identity(e), EntryStory()).deadly]


def _complete_bytes(path: Path) -> int:
    """Bytes of the complete lines."""
    raw = path.read_bytes()
    return raw.rfind(b"\n") + 1


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        return  # this system has no such locks
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise UsageError(f"another sweep is writing {path}: wait for it, or name another journal with --journal") from None


# sweep order ------------------------------------------------------------------------------------------------
# What is tuned after what: entries that share a kernel warm each other.
#
# A search begins with the schedules of the nearest shape that was tuned before (`search.warm_start`). So the entries of one kernel, element type
# and target are a tree: the smallest sum of distances that joins all shapes (R. C. Prim, "Shortest connection networks and some
# generalizations", 1957), from the shape in the middle. Where that would be a long row, which no number of machines can hurry, it goes from
# coarse to fine instead. A distance is in octaves of all extents together. Entries of unlike kernels have
# nothing to wait for, and where an entry fails, those after it are tuned all the same.


LONGEST = 12
"""Entries after one another in a tree, from which on it goes from coarse to fine instead."""


@dataclass(frozen=True, slots=True)
class SweepOrder:
    """`entries` in an order in which each stands behind the one that it waits for; `after`: the index of that one, None for the first
    of a tree; `depth`: how many stand before it on its way."""

    entries: tuple[Entry, ...]
    after: tuple[int | None, ...]
    depth: tuple[int, ...]

    @property
    def longest(self) -> int:
        """How many entries must be tuned one after the other, however many machines there are."""
        return max(self.depth, default=-1) + 1


def order(entries: Sequence[Entry]) -> SweepOrder:
    """The trees of all entries, those of less depth first, and else in the order in which they were given."""
    groups: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for i, e in enumerate(entries):
        groups[e.kernel, e.dtype, e.place, tuple(sorted(e.shape))].append(i)
    parent: dict[int, int | None] = {}
    depth: dict[int, int] = {}
    for members in groups.values():
        points = [[math.log2(max(1, entries[i].shape[n])) for n in sorted(entries[i].shape)] for i in members]
        for child, joined in tree(points):
            i = members[child]
            parent[i] = None if joined is None else members[joined]
            depth[i] = 0 if joined is None else depth[members[joined]] + 1
    ranked = sorted(range(len(entries)), key=lambda i: (depth[i], i))
    place = {i: n for n, i in enumerate(ranked)}
    waits = [parent[i] for i in ranked]
    return SweepOrder(
        tuple(entries[i] for i in ranked), tuple(None if p is None else place[p] for p in waits), tuple(depth[i] for i in ranked)
    )


def tree(points: Sequence[Sequence[float]]) -> list[tuple[int, int | None]]:
    """(point, the one that it follows), each behind the one it follows: the shortest tree, or where that has too long a way, the one that goes
    from coarse to fine. O(n²)."""
    found = shortest(points)
    depth: dict[int | None, int] = {None: -1}
    for child, joined in found:
        depth[child] = depth[joined] + 1
    return found if max(depth.values()) < LONGEST else coarse_to_fine(points)


def shortest(points: Sequence[Sequence[float]]) -> list[tuple[int, int | None]]:
    """(point, the one it is joined to) of the smallest tree over points, the one nearest to their mean first."""
    return _grown(points, lambda away, left: int(_of_left(left, away, math.inf).argmin()))


def coarse_to_fine(points: Sequence[Sequence[float]]) -> list[tuple[int, int | None]]:
    """(point, the nearest one before it), each point the farthest from all before it (T. Gonzalez, "Clustering to minimize the maximum
    intercluster distance", 1985): the whole range is covered early, and ways are as long as a logarithm."""
    return _grown(points, lambda away, left: int(_of_left(left, away, -math.inf).argmax()))


def _of_left(left: Any, away: Any, other: float) -> Any:
    """The distances of the points that are left, and something else for those that are not."""
    import numpy as np

    return np.where(left, away, other)


def _grown(points: Sequence[Sequence[float]], choose: Callable[[Any, Any], int]) -> list[tuple[int, int | None]]:
    """A tree that grows by the point that `choose` picks, of the distances to the tree and which points are left."""
    import numpy as np

    if not points:
        return []
    x = np.asarray(points, dtype=float).reshape(len(points), len(points[0]))
    root = int(np.abs(x - x.mean(axis=0)).sum(axis=1).argmin())
    out: list[tuple[int, int | None]] = [(root, None)]
    away = np.abs(x - x[root]).sum(axis=1)
    nearest = np.full(len(x), root)
    left = np.ones(len(x), dtype=bool)
    left[root] = False
    while left.any():
        child = choose(away, left)
        out.append((child, int(nearest[child])))
        left[child] = False
        new = np.abs(x - x[child]).sum(axis=1)
        nearest[left & (new < away)] = child
        away = np.minimum(away, new)
    return out
