"""A time line drawn: as text, as SVG, and as a trace for Perfetto (ui.perfetto.dev)."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from .pipeline_schedule import Block
from .simulator import Timeline

IDLE = "."
COLOURS = {"F": "#4f8fd0", "B": "#57a773", "W": "#d9a441", "BW": "#8fb339", "pair": "#8a6fb0"}


def text(line: Timeline, width: int = 100) -> str:
    """A row of at most `width` characters for each stage: F, B and W, D for a pair of passes side by side, a dot where the stage is idle. A
    letter is small in every second microbatch, and a whole backward pass is written as B."""
    names = [f"stage {k} " for k in range(len(line.rows))]
    margin = len(names[-1])
    columns = max(1, width - margin)
    end = max(row[-1].end for row in line.rows)
    drawn = []
    for name, row in zip(names, line.rows):
        cells, k = [], 0
        for column in range(columns):
            now = (column + 0.5) / columns * end
            while k < len(row) and row[k].end <= now:
                k += 1
            cells.append(_letter(row[k].block) if k < len(row) and row[k].start <= now else IDLE)
        drawn.append(name.rjust(margin) + "".join(cells))
    return "\n".join(drawn)


def _letter(block: Block) -> str:
    letter = "D" if len(block) == 2 else block[0].kind[0]
    return letter.lower() if block[0].microbatch % 2 else letter


def _colour(block: Block) -> str:
    return COLOURS["pair" if len(block) == 2 else block[0].kind]


def svg(line: Timeline, width: int = 1200, height: int = 22) -> str:
    """A picture: a rectangle for each block, with its name as its title, and inside where it fits."""
    end = max(row[-1].end for row in line.rows) or 1.0
    scale, left = (width - 70) / end, 60
    tall = len(line.rows) * (height + 4) + 8
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{tall}" viewBox="0 0 {width} {tall}" '
        'font-family="sans-serif" font-size="9">',
        f"<title>{escape(line.schedule.name)}: {line.step:.6g} s a step, {line.bubble:.1%} idle</title>",
    ]
    for stage, row in enumerate(line.rows):
        y = 4 + stage * (height + 4)
        out.append(f'<text x="4" y="{y + height / 2 + 3}">stage {stage}</text>')
        for b in row:
            x, w, name = left + b.start * scale, (b.end - b.start) * scale, "+".join(map(str, b.block))
            out.append(
                f'<rect x="{x:.2f}" y="{y}" width="{w:.2f}" height="{height}" fill="{_colour(b.block)}" stroke="#fff" stroke-width="0.4">'
                f"<title>{name}: {b.start:.6g} to {b.end:.6g} s</title></rect>"
            )
            if w > 5.5 * len(name):
                out.append(f'<text x="{x + w / 2:.2f}" y="{y + height / 2 + 3}" text-anchor="middle" fill="#fff">{name}</text>')
    return "\n".join([*out, "</svg>\n"])


def perfetto(line: Timeline) -> str:
    """Trace events (JSON) that Perfetto and chrome://tracing open: a thread for each stage, and its memory as a counter. Microseconds."""
    events: list[dict[str, Any]] = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": line.schedule.name}}]
    for stage, row in enumerate(line.rows):
        events.append({"ph": "M", "pid": 0, "tid": stage, "name": "thread_name", "args": {"name": f"stage {stage}"}})
        for b in row:
            name = "+".join(map(str, b.block))
            kind = "pair" if len(b.block) == 2 else b.block[0].kind
            events.append(
                {"ph": "X", "pid": 0, "tid": stage, "name": name, "cat": kind, "ts": b.start * 1e6, "dur": (b.end - b.start) * 1e6}
            )
        for second, level in line.stage_memory(stage):
            events.append({"ph": "C", "pid": 0, "name": f"memory of stage {stage}", "ts": second * 1e6, "args": {"bytes": level}})
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
