"""`tune report`: what the cache holds, as a table of times, rates, share of the roofline and gain over the start schedule, or as a page."""

from __future__ import annotations

import csv
import io
import json
import math
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ... import cache
from ...cache.keys import for_text
from ...cache.objective_types import FRONTS, OBJECTIVES
from ...cache.ranking import energy_of, scratch_of, value_of
from ...cache.rows import JSON_FIELDS, Row
from ...ir.errors import UsageError
from ...ir.units import counted
from ..cache.query import shape_of
from ..terminal.style import bytes_text, console, duration, legend, rate, soft_wrapped, stored_opts, table
from .entries import COLUMNS, ReportEntry, cell_text, entries, measurements, notes, ratio
from .html import front_listing

if TYPE_CHECKING:
    from ...cache import Row
    from ..terminal.style import Listing


EMPTY = "the cache holds nothing like that; fill it with: tune run --kernel matmul --budget 20s"


def run(args: Namespace) -> int:
    """Print the best measurement of every kernel the arguments name, or write the page."""
    if args.tokens:
        return _token_report(args)
    graph, studies = _graph(args), _studies(args)
    with cache.open(args.cache) as store:
        if args.format == "t4" and not args.html:
            rows = [r for r in measurements(store, args) if args.outcome in (None, r.outcome)]
            print(as_t4(rows[: args.limit] if args.limit else rows))
            return 0
        found = entries(store, args)
    if args.html:
        from .html import write

        write(args.html, found, graph, studies)
        console().print(f"wrote {args.html}: {counted(len(found), 'kernel')}", soft_wrap=True)
        return 0
    if args.format != "table":
        print({"json": as_json, "csv": as_csv, "markdown": as_markdown}[args.format](found))
        return 0
    out = console(wide=args.wide)
    if not found:
        out.print(EMPTY)
        return 0
    out.print(report(found, out.width < NARROW))
    for e in found:
        if e.best.objective in FRONTS:
            out.print(front_listing(e))
    for note in notes(found):
        out.print(note, style="dim")
    if any("source" not in e.best.facts for e in found):
        out.print(legend(), style="dim")
    return 0


def _graph(args: Namespace) -> str:
    """The section about --graph's function, '' without one."""
    if not args.graph:
        return ""
    if not args.html:
        raise UsageError("--graph is a part of the page that --html writes; `tune graph` prints it")
    from ..functions.pictures import section
    from ..functions.tracing import ask

    return section(ask(args.graph, None, None))


def _studies(args: Namespace) -> str:
    """The part of the page about --study's studies, '' without one."""
    if not args.study:
        return ""
    if not args.html:
        raise UsageError("--study is a part of the page that --html writes; optuna-dashboard shows a study by itself")
    from .study import studies_page

    return studies_page(args.study, args)


NARROW = 110
"""Columns of a terminal below which rates, and where a schedule is from, stand under other figures."""


def report(found: Sequence[ReportEntry], narrow: bool = False) -> Listing:
    """The report as a table. Narrow, it has five columns of two or three lines."""
    from rich.text import Text

    if narrow:
        out = table("fastest verified schedules", "kernel", ">time", ">roofline", ">over start?1", "opts?2")
    else:
        out = table(
            "fastest verified schedules",
            "kernel",
            "device?2",
            ">time",
            ">GFLOP/s?3",
            ">GB/s?4",
            ">roofline",
            ">over start?1",
            "found by?5",
            "opts?6",
        )
    for e in found:
        r = e.best
        kernel = Text.assemble((r.name, "bold"), for_text(r.objective, r.policy), f" {r.dtype}\n{shape_of(r)}")
        device, threads = r.device, f"{r.threads} thread{'s' * (r.threads != 1)}"
        time, flops, moved, share, gain = (cell_text(e, name) for name in ("time", "gflops", "gbs", "roofline", "gain"))
        if narrow:
            rates = "".join(f"\n{text} {unit}" for text, unit in ((flops, "GFLOP/s"), (moved, "GB/s")) if text != "-")
            out.add_row(
                kernel + Text(f"\n{device}, {threads}"), f"{time}{rates}", share, Text(f"{gain}\n{e.origin}"), stored_opts(r.opts_display)
            )
        else:
            out.add_row(kernel, Text(f"{device}\n{threads}"), time, flops, moved, share, gain, Text(e.origin), stored_opts(r.opts_display))
    return out


# formats ----------------------------------------------------------------------------------------------------
# Reports for programs and for other documents: JSON, CSV, a Markdown table, and the T4 results of auto-tuning tools.


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
    return {k: json.loads(v) if k in JSON_FIELDS else v for k, v in row.to_dict().items()}


def as_csv(found: Sequence[ReportEntry]) -> str:
    """One line an entry: every column (times in seconds, shares and factors as numbers), then the row of the cache as `row.FIELD`, its
    JSON fields as JSON. A text that a spreadsheet would run as a formula has an apostrophe before it."""
    from dataclasses import fields

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
            f"**{escaped(r.name)}**{for_text(r.objective, r.policy)} {escaped(str(COLUMNS['shape'](e)))} {escaped(r.dtype)}".replace("  ", " "), escaped(f"{r.device}, {r.threads} thread{'s' * (r.threads != 1)}"),
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
    times = [t * 1e3 for t in (r.t_min, r.t_med) if t is not None]
    measured: list[dict[str, Any]] = []
    if r.t_min:
        rates = (("performance", r.flops, "GFLOP/s"), ("bandwidth", r.bytes, "GB/s"))
        measured = [
            {"name": "time", "value": r.t_min * 1e3, "unit": "ms"},
            *({"name": name, "value": value, "unit": unit} for name, value, unit in _secondary_figures(r)),
            *({"name": name, "value": value, "unit": unit} for name, amount, unit in rates if (value := ratio(amount, r.t_min, 1e-9))),
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


def _secondary_figures(r: Row) -> Iterator[tuple[str, float, str]]:
    """Energy and scratch memory, where they are known and the search was about something but the time."""
    used, scratch = energy_of(r).get("joules"), scratch_of(r)
    if used is not None:
        yield "energy", used, "J"
    if scratch is not None and "scratch" in r.objective:
        yield "scratch", scratch, "B"
    if r.objective not in (*OBJECTIVES, *FRONTS) and (value := value_of(r, r.objective)) < math.inf:
        yield r.objective, value, ""


def _configuration(r: Row) -> dict[str, Any]:
    """What was chosen: of a source its parameters' values by name, of a kernel its schedule and what it is a schedule of."""
    from ...sources.building import chosen

    opts = json.loads(r.opts_display)
    values = chosen(opts)
    if values:
        return values
    return {"kernel": r.name, "shape": r.shape_dict, "dtype": r.dtype, "device": r.device, "threads": r.threads, "opts": opts}


# what a token of a language model reads, and which of its kernels are not at the speed of memory -----------------------

NEAR = 0.9
"""Share of the bandwidth from which on a kernel counts as being at it."""
BUSY = 1.5
"""How many times as long as a token its kernels may take one by one: beyond, something else ran meanwhile."""


def _token_report(args: Namespace) -> int:
    """Run the model in a process of its own, and print a line for each kernel of a token. Raises UsageError."""
    from ..tuning.model import events, is_files

    if not is_files(args.tokens):
        raise UsageError(f"--tokens {args.tokens} is no language model: give a Hugging Face folder, a GGUF file, or a .bin file")
    if args.html or args.format not in ("table", "json"):
        raise UsageError("--tokens prints a table, or --format json")
    threads = {} if args.threads is None else {"threads": args.threads}
    (found,) = events("examples", [args.tokens, json.dumps({"token": True, "cache": args.cache, **threads})])
    if found.pop("event") == "failed":
        raise UsageError(found["error"])
    token = _token_facts(found)
    if args.format == "json":
        print(json.dumps(token, indent=1))
    else:
        _print_token(args, token)
    return 0


def _token_facts(found: dict[str, Any]) -> dict[str, Any]:
    """The same, with bytes and bandwidths of the whole. `share`: of the bytes a second that this machine reads, None where its limits are not
    known; `slow`: seconds that a kernel takes beyond those of its bytes; `busy`: whether kernels took so long that other programs must have run."""
    from ...devices import get

    kernels, seconds = found["kernels"], found["seconds"]
    limits = get("cpu").limits()
    threads = max((k["threads"] for k in kernels), default=1)
    reads = None if limits is None else limits.bandwidth(threads, writes=False)
    for k in kernels:
        k["share"] = k["nbytes"] / k["seconds"] / reads if reads else None
        k["slow"] = k["seconds"] - k["nbytes"] / reads if reads else None
    nbytes = sum(k["nbytes"] for k in kernels)
    share = nbytes / seconds / reads if reads else None
    together = sum(k["seconds"] for k in kernels)
    measured = {"between_s": max(0.0, seconds - together), "busy": together > BUSY * seconds}
    return found | measured | {"nbytes": nbytes, "reads_s": reads, "share": share, "threads": threads}


def _print_token(args: Namespace, token: dict[str, Any]) -> None:
    out = console(wide=args.wide)
    t = table(f"a token of {args.tokens}", "kernel", ">runs?1", ">time", ">bytes?2", ">GB/s?3", ">of memory", "schedule?4")

    def share(of: float | None) -> str:
        return "-" if not of else f"{100 * of:.0f} %" if of <= 1 else "in cache"

    shown = token["kernels"][: args.limit or len(token["kernels"])]
    for k in shown:
        figures = bytes_text(round(k["nbytes"])), rate(k["gbytes_s"], ""), share(k["share"])
        t.add_row(k["name"], f"{k['calls']:g}", duration(k["seconds"]), *figures, k["origin"])
    out.print(t)
    whole = f"{duration(token['seconds'])} a token with {token['threads']} threads, {bytes_text(round(token['nbytes']))} moved"
    of = f", {share(token['share'])} of the {token['reads_s'] / 1e9:.3g} GB/s that memory gives" if token["reads_s"] else ""
    line = f"{whole}: {token['nbytes'] / token['seconds'] / 1e9:.3g} GB/s{of}; {duration(token['between_s'])} between kernels"
    out.print(line, soft_wrap=soft_wrapped(out))
    if token["busy"]:
        ratio = sum(k["seconds"] for k in token["kernels"]) / token["seconds"]
        text = f"the times of kernels are not to be trusted: together they are {ratio:.1f} times those of a token, so other programs ran meanwhile"
        out.print(f"{text}; measure again when nothing else runs", soft_wrap=soft_wrapped(out))
        return
    if token["reads_s"] is None:
        out.print("this machine's limits are not known: `tune devices --probe` measures them, for shares of the bandwidth", style="dim")
        return
    slow = sorted((k for k in token["kernels"] if k["share"] < NEAR), key=lambda k: -k["slow"])
    for k in slow[:3]:
        text = f"{k['name']} takes {duration(k['slow'])} more than its bytes, {100 * k['slow'] / token['seconds']:.0f} % of a token"
        out.print(text, soft_wrap=soft_wrapped(out))
