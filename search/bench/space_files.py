"""Recorded spaces in files: ours, Kernel Tuner's caches, and the auto-tuning community's T4 results.

Kernel Tuner's cache (schemas 1.0 and 1.1) keeps times in milliseconds and the name of an error where a time would be;
one that was cut off while it was written lacks its last brackets. T4 names its units, milliseconds where it does not.
Of both only what was recorded exists here: configurations that a restriction rules out were never in the file."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from ...files.write_file import decoded
from ...ir.errors import UsageError
from ...opts.defaults import numbered
from .recording import RecordedEntry, Recording

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ..space import Schedule


def options(values: Mapping[str, Sequence[Any]]) -> dict[str, dict[Any, Opt]]:
    """The option of each value of each parameter; they mean nothing but the value's place."""
    return {k: {v: numbered(k, i + 1) for i, v in enumerate(vs)} for k, vs in values.items()}


def schedule(table: Mapping[str, Mapping[Any, Opt]], chosen: Mapping[str, Any]) -> Schedule:
    """The schedule that stands for a configuration; `table`: what `options` made."""
    return tuple(of[chosen[k]] for k, of in table.items())


_KERNEL_TUNER_COSTS = ("compile_time", "verification_time", "benchmark_time", "framework_time")
_UNITS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "microseconds": 1e-6, "ns": 1e-9, "nanoseconds": 1e-9}


SPACES = Path(__file__).with_name("spaces")
"""Spaces to work on, which `benchmarks/parts/made_up_spaces.py` made up."""


def packaged() -> dict[str, Recording]:
    """The spaces that come with this package, by name."""
    return {path.stem: _columns(path) for path in sorted(SPACES.glob("*.npz"))}


def _columns(path: Path) -> Recording:
    """A space of columns: `at`, the index of each parameter's value, `seconds` (NaN: it does not build), and `cost` in seconds."""
    import numpy as np

    with np.load(path, allow_pickle=False) as data:
        said = json.loads(str(data["about"]))
        rows = zip(data["at"].tolist(), data["seconds"].tolist(), data["cost"].tolist(), strict=True)
    values: dict[str, list[Any]] = said["values"]
    table = options(values)
    entries = []
    for i, (at, time, cost) in enumerate(rows):
        chosen = {k: vs[j] for (k, vs), j in zip(values.items(), at, strict=True)}
        right = not math.isnan(time)
        outcome = "ok" if right else "build"
        entries.append(RecordedEntry(schedule(table, chosen), str(i), 1.0, outcome, time if right else None, cost, "space", chosen))
    return Recording(said["about"], (), tuple(entries))


class _NoSpace(ValueError):
    """What is wrong with a file, in words."""


def load(path: str | Path) -> Recording:
    """The recorded space in a file, packed by gzip or not. Raises UsageError, which says what the file is not."""
    path = Path(path)
    try:
        raw = path.read_bytes()
        text = decoded(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    except (OSError, EOFError, ValueError) as e:
        raise UsageError(f"cannot read {path}: {getattr(e, 'strerror', None) or e}") from None
    if text.startswith('{"about"') or '"tilewright_space"' in text[:100_000].partition("\n")[0]:
        return Recording.read(text, path)
    try:
        data = _parsed(text)
        if not isinstance(data, Mapping):
            raise _NoSpace("the outermost thing in it is no object")
        if isinstance(data.get("cache"), Mapping):
            return _recording(str(path), data, _kernel_tuner(data))
        if isinstance(data.get("results"), Sequence):
            return _recording(str(path), data, _t4(data))
        raise _NoSpace('it has neither "cache" (Kernel Tuner) nor "results" (T4), nor our first line')
    except (_NoSpace, RecursionError) as e:
        raise UsageError(f"{path}: not a recorded space: {e or 'it nests too deeply'}") from None


def _parsed(text: str) -> Any:
    """JSON; a cache that is still open (it ends with a comma and lacks its brackets) is closed."""
    try:
        return json.loads(text)
    except ValueError as e:
        first = e
    try:
        return json.loads(text.rstrip().rstrip(",") + "}}")
    except ValueError:
        raise _NoSpace(f"neither JSON nor JSON Lines of ours ({first})") from None


Row = tuple[Mapping[str, Any], float | None, float, str]
"""Choices, seconds of a run (None: invalid), seconds that finding out cost, outcome."""


def _kernel_tuner(data: Mapping[str, Any]) -> Iterator[Row]:
    names = data.get("tune_params_keys")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise _NoSpace('"tune_params_keys" is no list of names')
    for key, row in data["cache"].items():
        if not isinstance(row, Mapping) or "time" not in row:
            raise _NoSpace(f'the entry {key!r} has no "time"')
        if missing := [n for n in names if n not in row]:
            raise _NoSpace(f"the entry {key!r} lacks the parameter {missing[0]!r}")
        runs = row["times"] if isinstance(row.get("times"), list) else []
        time = _number(row["time"])
        cost = sum(_number(row.get(k)) or 0.0 for k in _KERNEL_TUNER_COSTS)
        if "benchmark_time" not in row:
            cost += sum(_number(x) or 0.0 for x in runs)
        outcome = "ok" if time is not None and time < 1e20 else "crash" if row["time"] == "RuntimeFailedConfig" else "build"
        yield {n: row[n] for n in names}, time and time * 1e-3 if outcome == "ok" else None, cost * 1e-3, outcome


def _t4(data: Mapping[str, Any]) -> Iterator[Row]:
    for i, row in enumerate(data["results"]):
        where = f"result {i + 1}"
        if not isinstance(row, Mapping) or not isinstance(row.get("configuration"), Mapping):
            raise _NoSpace(f'{where} has no "configuration"')
        if row.get("invalidity") == "constraints":
            continue  # known before: no search would have asked
        times = row.get("times") if isinstance(row.get("times"), Mapping) else {}
        assert isinstance(times, Mapping)
        outcome = {"correct": "ok", "compile": "build", "timeout": "timeout", "correctness": "wrong"}.get(
            row.get("invalidity", "correct"), "crash"
        )
        time = _t4_time(row, times)
        runs = times.get("runtimes")
        cost = sum(_number(v) or 0.0 for k, v in times.items() if k not in ("runtimes", "search_algorithm"))
        if "benchmark" not in times:
            cost += sum(_number(x) or 0.0 for x in (runs if isinstance(runs, list) else []))
        if outcome == "ok" and time is None:
            raise _NoSpace(f'{where} is correct and has no time: "measurements" lacks the objective, and "runtimes" is empty')
        yield row["configuration"], time if outcome == "ok" else None, cost * 1e-3, outcome


def _t4_time(row: Mapping[str, Any], times: Mapping[str, Any]) -> float | None:
    """Seconds: the first objective among the measurements, else the mean of the runs."""
    measured = [m for m in row.get("measurements") or () if isinstance(m, Mapping)]
    wanted = (row.get("objectives") or ["time"])[0]
    for m in measured:
        if m.get("name") == wanted:
            unit = str(m.get("unit") or "ms")
            if unit.lower() not in _UNITS:
                raise _NoSpace(f"the objective {wanted!r} is in {unit!r}: only times can be compared here")
            value = _number(m.get("value"))
            return None if value is None else value * _UNITS[unit.lower()]
    runs = times.get("runtimes")
    found = [x for x in map(_number, runs if isinstance(runs, list) else []) if x is not None]
    return fmean(found) * 1e-3 if found else None


def _recording(name: str, data: Mapping[str, Any], rows: Iterator[Row]) -> Recording:
    """One template whose choices are the parameters; of a configuration that was recorded twice the last one."""
    found: dict[tuple[Any, ...], Row] = {}
    keys: tuple[str, ...] | None = None
    for row in rows:
        keys = keys if keys is not None else tuple(row[0])
        if set(row[0]) != set(keys):
            raise _NoSpace(f"its configurations have different parameters: {', '.join(keys)} and {', '.join(row[0])}")
        at = tuple(row[0][k] for k in keys)
        if any(isinstance(v, (list, dict)) for v in at):
            raise _NoSpace(f"a parameter's value is a list or an object: {at!r}")
        found[at] = row
    if keys is None:
        raise _NoSpace("it holds no configuration")
    values = {k: _ordered({at[i] for at in found}) for i, k in enumerate(keys)}
    table = options(values)
    entries = []
    for n, (at, (_, time, cost, outcome)) in enumerate(found.items()):
        chosen = dict(zip(keys, at))
        entries.append(RecordedEntry(schedule(table, chosen), str(n), 1.0, outcome, time, cost, "configuration", chosen))
    about = {"file": name, **{k: data[k] for k in ("kernel_name", "device_name", "problem_size") if k in data}}
    return Recording(about, (), tuple(entries))


def _ordered(values: set[Any]) -> list[Any]:
    numbers = all(isinstance(v, (int, float)) for v in values)
    return sorted(values) if numbers else sorted(values, key=lambda v: (str(type(v)), str(v)))


def _number(x: Any) -> float | None:
    return float(x) if isinstance(x, (int, float)) and not isinstance(x, bool) and 0 <= x < math.inf else None
