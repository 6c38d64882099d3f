"""Recorded spaces: schedules of a kernel with what was measured of each, as JSON Lines."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...files.write_file import replace
from ...ir.errors import OptError, UsageError
from ...opts.opt import parse

if TYPE_CHECKING:
    from ..space import Schedule

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class RecordedEntry:
    """One recorded schedule: what the model said (seconds), what came of it (`t_min` in seconds, None unless ok or
    slow), what finding out cost (seconds), and, where a template makes it, which and with which choices."""

    opts: Schedule
    hash: str
    estimate: float
    outcome: str
    t_min: float | None = None
    cost_s: float = 0.0
    template: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def effects(self) -> frozenset[str]:
        """What was recorded was allowed."""
        return frozenset()


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded space. `about`: kernel, shape, machine …, JSON-able. `starts`: the start schedules, best guess first.
    Also an engine: only recorded schedules are legal."""

    about: Mapping[str, Any]
    start_list: tuple[Schedule, ...]
    entries: tuple[RecordedEntry, ...]
    _by_opts: dict[Schedule, RecordedEntry] = field(default_factory=dict, init=False, repr=False, compare=False)
    _after: dict[Schedule, list[Schedule]] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for e in self.entries:
            self._by_opts.setdefault(e.opts, e)
        for opts in self._by_opts:
            # the longest recorded prefix is where a walk comes from: one action, or a macro where the steps between were not recorded
            cut = next((i for i in range(len(opts) - 1, -1, -1) if opts[:i] in self._by_opts), None)
            if cut is not None:
                self._after.setdefault(opts[:cut], []).append(opts[cut:])

    # the engine -----------------------------------------------------------------------------------------------------
    def starts(self) -> Sequence[Schedule]:
        return self.start_list

    def apply(self, opts: Schedule) -> RecordedEntry:
        found = self._by_opts.get(tuple(opts))
        if found is None:
            raise OptError("this schedule is not in the recording")
        return found

    def actions(self, applied: RecordedEntry) -> Sequence[Schedule]:
        return self._after.get(applied.opts, [])

    def estimate(self, applied: RecordedEntry) -> float:
        return applied.estimate

    def code_size(self, applied: RecordedEntry) -> float:
        return 0.0

    def templates(self) -> Sequence[RecordedTemplate]:
        names = dict.fromkeys(e.template for e in self.entries if e.template is not None)
        return [RecordedTemplate(n, [e for e in self.entries if e.template == n]) for n in names]

    # the file -------------------------------------------------------------------------------------------------------
    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> None:
        """JSON Lines, packed by gzip where the name ends so: a header, then one line an entry. `overwrite`: in the place of any file, else
        only of a recorded space. Raises OSError."""
        lines = [{"tilewright_space": SCHEMA, "about": dict(self.about), "starts": [_json(s) for s in self.start_list]}]
        for e in self.entries:
            line: dict[str, Any] = {
                "opts": _json(e.opts),
                "hash": e.hash,
                "estimate": e.estimate,
                "outcome": e.outcome,
                "t_min": e.t_min,
                "cost_s": e.cost_s,
            }
            if e.template is not None:
                line |= {"template": e.template, "params": dict(e.params)}
            lines.append(line)
        text = "".join(json.dumps(x, sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n" for x in lines)
        # no date inside: the same space gives the same file
        replace(path, gzip.compress(text.encode(), 9, mtime=0) if Path(path).suffix == ".gz" else text, None if overwrite else "space")

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Raises UsageError naming the line that `save` did not write."""
        try:
            raw = Path(path).read_bytes()
            text = (gzip.decompress(raw) if Path(path).suffix == ".gz" else raw).decode()
        except (OSError, EOFError, ValueError) as e:
            raise UsageError(f"{path}: not a recorded space ({type(e).__name__}: {e})") from e
        return Recording.read(text, path)

    @staticmethod
    def read(text: str, path: str | os.PathLike[str]) -> Recording:
        """The space that a file's text holds; `path` is for messages. Raises what `load` does."""
        at = 1
        try:
            head, *rest = text.splitlines()
            about = json.loads(head)
            if about["tilewright_space"] != SCHEMA:
                raise ValueError(f"schema {about['tilewright_space']}, this version reads {SCHEMA}")
            entries = []
            for text in rest:
                at += 1
                line = json.loads(text)
                entries.append(RecordedEntry(**{**line, "opts": parse(line["opts"])}))
            return Recording(about["about"], tuple(parse(s) for s in about.get("starts", about.get("seeds", ()))), tuple(entries))
        except (ValueError, KeyError, TypeError, OptError) as e:
            raise UsageError(f"{path}, line {at}: not a recorded space ({type(e).__name__}: {e})") from e


class RecordedTemplate:
    """A template of which only recorded instances exist."""

    def __init__(self, name: str, entries: Sequence[RecordedEntry]) -> None:
        self.name = name
        self._names = tuple(dict.fromkeys(k for e in entries for k in e.params))
        self._made = {self._key(e.params): e for e in entries}
        self.params: dict[str, tuple[Any, ...]] = {}
        for k in dict.fromkeys(k for e in entries for k in e.params):
            values = list(dict.fromkeys(e.params[k] for e in entries if k in e.params))
            self.params[k] = tuple(sorted(values) if all(isinstance(v, (int, float)) for v in values) else values)

    def make(self, params: dict[str, Any]) -> Schedule:
        """Raises OptError for choices that were not recorded."""
        found = self._made.get(self._key(params))
        if found is None:
            raise OptError(f"template {self.name}: these choices are not in the recording")
        return found.opts

    def points(self) -> Sequence[Mapping[str, Any]]:
        """The choices of every instance that there is: what restrictions leave is known before anything is built."""
        return [e.params for e in self._made.values()]

    def _key(self, params: Mapping[str, Any]) -> tuple[Any, ...]:
        return tuple(params.get(k) for k in self._names)


def _json(opts: Iterable[Any]) -> list[Any]:
    return [o.json for o in opts]
