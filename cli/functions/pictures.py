"""A function's kernels as Graphviz text, as an SVG that needs no Graphviz, and in HTML: a section of the report, and a page of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from ...ir.kernel_text import kernel_text
from ..terminal.style import bytes_text

if TYPE_CHECKING:
    from ...tensor.fusion.fusion_facts import GraphFacts, TensorFacts
    from .tracing import FunctionGraph


WIDE, HIGH, GAP_X, GAP_Y = 210, 46, 26, 58
"""Pixels of a box, and between boxes."""


@dataclass(frozen=True)
class Arrow:
    """`tensor` goes from a box to a box: ('kernel', number), ('in', place) or ('out', place)."""

    start: tuple[str, int]
    end: tuple[str, int]
    tensor: TensorFacts


def arrows(facts: GraphFacts) -> list[Arrow]:
    """What flows where: arguments into kernels, stored tensors between them, outputs out."""
    tensors = {t.number: t for t in facts.tensors}
    found = []
    for k in facts.kernels:
        for p in k.inputs:
            t = tensors[p]
            found.append(Arrow(("in", p) if t.made_by is None else ("kernel", t.made_by), ("kernel", k.number), t))
    return found + [
        Arrow(("in", t.number) if t.made_by is None else ("kernel", t.made_by), ("out", t.number), t) for t in facts.tensors if t.output
    ]


def dot_text(found: FunctionGraph) -> str:
    """Graphviz text."""
    facts = found.facts
    lines = ["digraph kernels {", '  node [fontname="sans-serif" fontsize=11]', '  edge [fontname="sans-serif" fontsize=9]']
    lines.append(f"  label={_quoted(found.path)}")
    for k in facts.kernels:
        about = f"{k.number + 1} {k.name}\n{bytes_text(k.nbytes)} moved" + (f", {bytes_text(k.kept)} kept inside" if k.kept else "")
        lines.append(f'  kernel{k.number} [shape=box style="rounded,filled" fillcolor="#dbe7ff" label={_quoted(about)}]')
    drawn = arrows(facts)
    for kind, number in dict.fromkeys(end for a in drawn for end in (a.start, a.end) if end[0] != "kernel"):
        t = next(t for t in facts.tensors if t.number == number)
        lines.append(f"  {kind}{number} [shape=plaintext label={_quoted(_label(t) if kind == 'in' else 'result')}]")
    for a in drawn:
        about = f" label={_quoted(_label(a.tensor))} tooltip={_quoted(a.tensor.rule)}" if a.start[0] == "kernel" else ""
        lines.append(f"  {a.start[0]}{a.start[1]} -> {a.end[0]}{a.end[1]} [{about.strip()}]")
    return "\n".join([*lines, "}"]) + "\n"


def svg(facts: GraphFacts) -> str:
    """Boxes in rows, each as far down as the longest way to it; arguments above, results below."""
    drawn = arrows(facts)
    rows = _rows(facts, drawn)
    place: dict[tuple[str, int], tuple[int, int]] = {}
    widest = max((len(r) for r in rows), default=1)
    for y, row in enumerate(rows):
        shift = (widest - len(row)) * (WIDE + GAP_X) // 2
        place.update({box: (shift + x * (WIDE + GAP_X), y * (HIGH + GAP_Y)) for x, box in enumerate(row)})
    width, height = widest * (WIDE + GAP_X) - GAP_X, len(rows) * (HIGH + GAP_Y) - GAP_Y
    out = [f'<svg viewBox="-4 -4 {width + 8} {height + 8}" role="img" aria-label="kernels and what flows between them">']
    for a in drawn:
        (x0, y0), (x1, y1) = place[a.start], place[a.end]
        x0, x1, y0 = x0 + WIDE // 2, x1 + WIDE // 2, y0 + HIGH
        half = (y1 - y0) // 2
        title = escape(f"{_label(a.tensor)}: {a.tensor.rule or 'from outside'}")
        out.append(
            f'<path d="M{x0} {y0}C{x0} {y0 + half} {x1} {y1 - half} {x1} {y1}" fill="none" stroke="var(--soft)" stroke-width="1.4">'
            f"<title>{title}</title></path>"
        )
    tensors = {t.number: t for t in facts.tensors}
    for box, (x, y) in place.items():
        kind, number = box
        if kind == "kernel":
            k = facts.kernels[number]
            fill, head, about = "var(--c0)", f"{number + 1} {k.name}", f"{bytes_text(k.nbytes)} moved"
        else:
            t = tensors[number]
            fill, head, about = "var(--line)", t.label if kind == "in" else "result", f"{t.dtype}{list(t.shape)}"
        out.append(
            f'<g><rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="8" fill="{fill}" fill-opacity="0.18" stroke="{fill}"/>'
            f'<text x="{x + 10}" y="{y + 19}">{escape(_cut(head))}</text><text class="note" x="{x + 10}" y="{y + 36}">{escape(_cut(about))}</text></g>'
        )
    return "".join(out) + "</svg>"


def _rows(facts: GraphFacts, drawn: list[Arrow]) -> list[list[tuple[str, int]]]:
    depth: dict[tuple[str, int], int] = {a.start: 0 for a in drawn if a.start[0] == "in"}
    for k in facts.kernels:  # they are in an order in which they can run
        own = ("kernel", k.number)
        depth[own] = 1 + max((depth[a.start] for a in drawn if a.end == own), default=0)
    for a in drawn:
        if a.end[0] == "out":
            depth[a.end] = depth[a.start] + 1
        if a.start[0] == "in":
            depth[a.start] = max(0, min(depth[b.end] for b in drawn if b.start == a.start and b.end[0] == "kernel") - 1) if any(
                b.start == a.start and b.end[0] == "kernel" for b in drawn) else 0  # fmt: skip
    rows: list[list[tuple[str, int]]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for box, d in depth.items():
        rows[d].append(box)
    return rows


def _label(t: TensorFacts) -> str:
    return f"{t.label} {t.dtype}[{', '.join(map(str, t.shape))}]".strip()


def _quoted(text: str) -> str:
    """A text of Graphviz's language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _cut(text: str) -> str:
    return text if len(text) <= 30 else text[:29] + "…"


def summary(facts: GraphFacts) -> str:
    """`2 kernels, 17.8 MFLOP, 834 KiB moved; one operation at a time 2.44 MiB (2.9 times as much)`."""
    many = f"{len(facts.kernels)} kernel{'s' * (len(facts.kernels) != 1)}"
    text = f"{many}, {count_text(facts.flops)}FLOP, {bytes_text(facts.nbytes)} moved"
    if facts.unfused > facts.nbytes:
        text += f"; one operation at a time {bytes_text(facts.unfused)} ({facts.unfused / max(1, facts.nbytes):.2g} times as much)"
    return text + (f"; {bytes_text(facts.kept)} of intermediates never reach memory" if facts.kept else "")


def shape_dtype(t: TensorFacts) -> str:
    """`float32[64, 128]`."""
    return f"{t.dtype}[{', '.join(map(str, t.shape))}]"


def count_text(n: int) -> str:
    """`8.39 M`, `12 `: to be followed by a unit."""
    for limit, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if n >= limit:
            return f"{n / limit:.3g} {unit}"
    return f"{n} "


def section(found: FunctionGraph) -> str:
    """The picture, the kernels and the boundaries."""
    facts = found.facts
    tensors = {t.number: t for t in facts.tensors}
    rows = []
    for k, kernel in zip(facts.kernels, found.kernels, strict=True):
        reads = ", ".join(f"{tensors[p].label} {shape_dtype(tensors[p])}" for p in k.inputs)
        text = f"<details><summary>expression</summary><pre>{escape(kernel_text(kernel))}</pre></details>" if kernel is not None else ""
        about = f"<small>{escape(', '.join(k.lines))}</small>{text}"
        cells = (count_text(k.flops) + "FLOP", bytes_text(k.nbytes), bytes_text(k.unfused), bytes_text(k.kept))
        rows.append(
            f'<tr><th scope="row">{k.number + 1} {escape(k.name)}{about}</th><td class=wide>{escape(reads)}</td>'
            + "".join(f"<td class=n>{escape(c)}</td>" for c in cells)
            + "</tr>"
        )
    stored = "".join(
        f"<tr><td>{escape(t.label)}</td><td>{escape(shape_dtype(t))}</td><td>{escape(t.line)}</td><td class=n>{bytes_text(t.nbytes)}</td><td class=n>{(t.made_by or 0) + 1}</td>"
        f"<td class=wide>{escape(t.rule)}</td></tr>"
        for t in facts.tensors
        if t.made_by is not None
    )
    unfolded = "".join(
        f'<p class="soft">Not in tiles: the contraction at {escape(line)}: {escape(why)}</p>' for line, why in facts.unfolded
    )
    heads = (
        "<th>kernel</th><th>reads</th><th class=n>work</th><th class=n>moved</th><th class=n>one by one</th><th class=n>kept inside</th>"
    )
    return (
        f"<section><h3>{escape(found.path)}</h3><p>{escape(summary(facts))}</p><figure>{svg(facts)}</figure>"
        f'<h4>Kernels</h4><div class="scroll"><table class=all><thead><tr>{heads}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'
        '<h4>Stored tensors, and the rule that stored each</h4><div class="scroll"><table><thead><tr><th>tensor</th><th>shape</th><th>line</th>'
        f"<th class=n>bytes</th><th class=n>made by</th><th>why</th></tr></thead><tbody>{stored}</tbody></table></div>{unfolded}</section>"
    )


def page(found: FunctionGraph) -> str:
    """The section as a page of its own; nothing is fetched from anywhere."""
    template = (files(__package__.rpartition(".")[0]) / "report" / "report.html").read_text(encoding="utf-8")
    style = re.search(r"<style>.*?</style>", template, re.S)
    assert style is not None
    title = escape(found.path)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title>{style[0]}</head><body><header><h1>{title}</h1></header><main>{section(found)}</main></body></html>\n"
    )
