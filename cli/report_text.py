"""Reports for programs and for other documents: JSON, CSV, a Markdown table, and the T4 results of auto-tuning tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .report_rows import COLUMNS, Entry
from .style import duration, gain, percent, rate

if TYPE_CHECKING:
    from ..cache import Row

INVALIDITY = {
    "ok": "correct", "slow": "correct", "wrong": "correctness", "build": "compile", "timeout": "timeout", "crash": "runtime", "illegal": "constraints",
}  # fmt: skip
"""Our outcomes in the words of T4."""


def as_json(found: Sequence[Entry]) -> str:
    """A list of objects: every column, then the whole row of the cache, its JSON fields decoded."""
    return json.dumps([{**{name: value(e) for name, value in COLUMNS.items()}, "row": decoded(e.best)} for e in found], indent=1)


def decoded(row: Row) -> dict[str, Any]:
    """A row's fields, JSON texts as what they hold."""
    from ..cache.rows import JSON_FIELDS

    return {k: json.loads(v) if k in JSON_FIELDS else v for k, v in row.to_dict().items()}


def as_csv(found: Sequence[Entry]) -> str:
    """One line an entry; times in seconds, shares and factors as numbers. Texts that a spreadsheet would run as a formula are quoted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for e in found:
        writer.writerow([_cell(value(e)) for value in COLUMNS.values()])
    return out.getvalue().rstrip("\n")


def _cell(value: Any) -> Any:
    return "" if value is None else f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value


def as_markdown(found: Sequence[Entry]) -> str:
    """A table for a pull request or a job's summary."""
    lines = ["| kernel | device | time | GFLOP/s | GB/s | roofline | gain | schedule |", "|---|---|--:|--:|--:|--:|--:|---|"]
    for e in found:
        r, t = e.best, e.seconds
        cells = [
            f"**{_escape(r.name)}** {_escape(str(COLUMNS['shape'](e)))} {_escape(r.dtype)}", _escape(f"{r.device}, {r.threads} thread{'s' * (r.threads != 1)}"),
            duration(t), rate(r.flops / t / 1e9, ""), rate(r.bytes / t / 1e9, ""), percent(r.roofline_s, t), gain(r.seed_s, t), f"`{_escape(str(COLUMNS['opts'](e)), code=True)}`",
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _escape(text: str, code: bool = False) -> str:
    """Text that stays text inside a table's cell."""
    text = " ".join(text.split()).replace("|", "\\|")
    return text.replace("`", "'") if code else "".join(f"\\{c}" if c in "\\`*_<>[]#" else c for c in text)


def as_t4(found: Sequence[Entry]) -> str:
    """Every measurement in the results format that auto-tuning tools exchange (T4 of the FAIR auto-tuning community, schema 1.0.0):
    times in milliseconds, `correctness` 1 for a verified or merely unconfirmed result and 0 for a wrong or missing one."""
    results = []
    for e in found:
        for r in e.history:
            results.append(
                {
                    "timestamp": r.when,
                    "configuration": {"kernel": r.name, "shape": json.loads(r.shape), "dtype": r.dtype, "device": r.device, "threads": r.threads, "opts": json.loads(r.opts_display)},
                    "objectives": ["time"],
                    "times": {"runtimes": [t * 1e3 for t in (r.t_min, r.t_med) if t is not None], "framework": 0.0, "search_algorithm": 0.0},
                    "invalidity": INVALIDITY[r.outcome],
                    "correctness": 1 if r.outcome in ("ok", "slow") else 0,
                    "measurements": _t4_measured(r),
                }
            )  # fmt: skip
    return json.dumps({"schema_version": "1.0.0", "results": results}, indent=1)


def _t4_measured(r: Row) -> list[dict[str, Any]]:
    if not r.t_min:
        return []
    return [{"name": "time", "value": r.t_min * 1e3, "unit": "ms"}, {"name": "GFLOP/s", "value": r.flops / r.t_min / 1e9, "unit": "GFLOP/s"}]
