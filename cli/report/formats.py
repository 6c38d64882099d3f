"""Reports for programs and for other documents: JSON, CSV, a Markdown table, and the T4 results of auto-tuning tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...cache.keys import for_text
from ...cache.ranking import energy_of, scratch_of
from .entries import COLUMNS, ReportEntry, cell_text, notes, ratio, timed

if TYPE_CHECKING:
    from ...cache import Row

INVALIDITY = {
    "ok": "correct", "slow": "correct", "wrong": "correctness", "build": "compile", "timeout": "timeout", "crash": "runtime", "illegal": "constraints",
}  # fmt: skip
"""Our outcomes in the words of T4."""


def as_json(found: Sequence[ReportEntry]) -> str:
    """A list of objects: every column, then the whole row of the cache, its JSON fields decoded."""
    return json.dumps(
        [{**{name: value(e) for name, value in COLUMNS.items()}, "row": decoded(e.best)} for e in found], indent=1, allow_nan=False
    )


def decoded(row: Row) -> dict[str, Any]:
    """A row's fields, JSON texts as what they hold."""
    from ...cache.rows import JSON_FIELDS

    return {k: json.loads(v) if k in JSON_FIELDS else v for k, v in row.to_dict().items()}


def as_csv(found: Sequence[ReportEntry]) -> str:
    """One line an entry: every column (times in seconds, shares and factors as numbers), then the row of the cache as `row.FIELD`, its
    JSON fields as JSON. A text that a spreadsheet would run as a formula has an apostrophe before it."""
    from dataclasses import fields

    from ...cache.rows import Row

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *(f"row.{f.name}" for f in fields(Row))])
    for e in found:
        writer.writerow([_cell(value) for value in (*(of(e) for of in COLUMNS.values()), *e.best.to_dict().values())])
    return out.getvalue().rstrip("\n")


def _cell(value: Any) -> Any:
    return "" if value is None else f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def as_markdown(found: Sequence[ReportEntry]) -> str:
    """A table for a pull request or a job's summary."""
    lines = ["| kernel | device | time | GFLOP/s | GB/s | roofline | over start | schedule |", "|---|---|--:|--:|--:|--:|--:|---|"]
    for e in found:
        r = e.best
        cells = [
            f"**{escaped(r.name)}**{for_text(r.objective, r.policy)} {escaped(str(COLUMNS['shape'](e)))} {escaped(r.dtype)}", escaped(f"{r.device}, {r.threads} thread{'s' * (r.threads != 1)}"),
            *(cell_text(e, name) for name in ("time", "gflops", "gbs", "roofline", "gain")), f"`{escaped(str(COLUMNS['opts'](e)), code=True)}`",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    lines += [line for note in notes(found) for line in ("", escaped(note))]
    return "\n".join(lines)


def escaped(text: str, code: bool = False) -> str:
    """Text that stays text inside a table's cell."""
    text = " ".join(text.split())
    return text.replace("`", "'").replace("|", "\\|") if code else "".join(f"\\{c}" if c in "\\`*_<>[]#|" else c for c in text)


def as_t4(rows: Sequence[Row]) -> str:
    """Measurements in the results format that auto-tuning tools exchange (T4 of the FAIR auto-tuning community, schema 1.0.0). Times are
    milliseconds; `runtimes` are the least and the median of a measurement, which is what a row keeps. `correctness` is 1 where the output
    was right and 0 where it was wrong or never came. How long thinking took is not in the cache, so it is not in `times`; how long building took is there of sources."""
    return json.dumps({"schema_version": "1.0.0", "results": [_t4_result(r) for r in rows]}, indent=1)


def _t4_result(r: Row) -> dict[str, Any]:
    least, typical = timed(r)
    times = [t * 1e3 for t in (least, typical) if t is not None]
    measured: list[dict[str, Any]] = []
    if least:
        rates = (("performance", r.flops, "GFLOP/s"), ("bandwidth", r.bytes, "GB/s"))
        measured = [
            {"name": "time", "value": least * 1e3, "unit": "ms"},
            *({"name": name, "value": value, "unit": unit} for name, value, unit in _more(r)),
            *({"name": name, "value": value, "unit": unit} for name, amount, unit in rates if (value := ratio(amount, least, 1e-9))),
        ]
    build_s = r.facts.get("build_s")
    return {
        "timestamp": r.when,
        "configuration": _configuration(r),
        "objectives": r.objective.split(","),
        "times": {"runtimes": times, **({"compilation_time": build_s * 1e3} if isinstance(build_s, float) else {})},
        "invalidity": INVALIDITY[r.outcome],
        "correctness": int(r.outcome in ("ok", "slow")),
        "measurements": measured,
    }  # fmt: skip


def _more(r: Row) -> Iterator[tuple[str, float, str]]:
    """Energy and scratch memory, where they are known and the search was about something but the time."""
    used, scratch = energy_of(r).get("joules"), scratch_of(r)
    if used is not None:
        yield "energy", used, "J"
    if scratch is not None and "scratch" in r.objective:
        yield "scratch", scratch, "B"


def _configuration(r: Row) -> dict[str, Any]:
    """What was chosen: of a source its parameters' values by name, of a kernel its schedule and what it is a schedule of."""
    from ...sources.configurations import chosen

    opts = json.loads(r.opts_display)
    values = chosen(opts)
    if values:
        return values
    return {"kernel": r.name, "shape": r.shape_dict, "dtype": r.dtype, "device": r.device, "threads": r.threads, "opts": opts}
