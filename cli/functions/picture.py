"""A function's kernels as a picture: Graphviz text, and an SVG that needs no Graphviz."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from ..terminal.style import bytes_text

if TYPE_CHECKING:
    from ...tensor.fusion.fusion_facts import GraphFacts, TensorFacts
    from .asked import FunctionGraph

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
