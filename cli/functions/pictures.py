"""A function's kernels as Graphviz text, as an SVG that needs no Graphviz, and in HTML: a section of the report, and a page of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from ...ir.kernel import kernel_text
from ..terminal.style import bytes_text

if TYPE_CHECKING:
    from ...tensor.fusion.fusion_facts import GraphFacts, TensorFacts
    from .tracing import FunctionGraph


WIDE, HIGH, GAP, RAIL = 300, 46, 14, 14
"""Pixels: a box, what is between two boxes, and between two rails."""


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
    """One kernel below another, in the order in which they run. A stored tensor is a rail on the left, from the kernel that makes it to the
    last one that reads it, so that no line crosses a text and a telephone shows all of it. Arguments are named by the kernels that read them."""
    tensors = {t.number: t for t in facts.tensors}
    made = {t.number: t.made_by for t in facts.tensors if t.made_by is not None}
    row = {k.number: y for y, k in enumerate(facts.kernels)}
    ends = [t for t in facts.tensors if t.output]
    readers = {n: [row[k.number] for k in facts.kernels if n in k.inputs] for n in made}
    for y, t in enumerate(ends, len(row)):
        readers.get(t.number, []).append(y)
    rails = _rails({n: (row[by], max(readers[n])) for n, by in made.items() if readers[n]})
    left = RAIL * (max(rails.values(), default=-1) + 2)
    out = []
    for n, rail in rails.items():
        x, y0, title = left - RAIL * (rail + 1), _top(row[made[n]]) + HIGH - 10, escape(f"{_label(tensors[n])}: {tensors[n].rule}")
        way = "".join(f"M{x} {y0}V{_top(y)}Q{x} {_top(y) + 10} {x + 8} {_top(y) + 10}H{left}" for y in readers[n])
        out.append(
            f'<path d="M{left} {y0 - 8}H{x + 8}Q{x} {y0 - 8} {x} {y0}{way}" fill="none" stroke="var(--soft)" stroke-width="1.4"><title>{title}</title></path>'
        )
    for y, k in enumerate(facts.kernels):
        given = ", ".join(tensors[p].label for p in k.inputs if p not in made)
        about = f"{bytes_text(k.nbytes)} moved" + (f"; reads {given}" if given else "")
        out.append(_box(left, y, "var(--c0)", f"{k.number + 1} {k.name}", about))
    for y, t in enumerate(ends, len(row)):
        out.append(_box(left, y, "var(--line)", "result" if t.number in made else f"result: {t.label}", shape_dtype(t)))
    width, height = left + WIDE, _top(len(row) + len(ends)) - GAP
    return (
        f'<svg viewBox="-4 -4 {width + 8} {height + 8}" style="max-width:{width + 8}px" role="img" aria-label="kernels and what flows between them">'
        + "".join(out)
        + "</svg>"
    )


def _rails(spans: dict[int, tuple[int, int]]) -> dict[int, int]:
    """A rail for each tensor, the nearest to the boxes that is free from its first row to its last. Short ones choose first."""
    taken: list[list[tuple[int, int]]] = []
    found = {}
    for n, (first, last) in sorted(spans.items(), key=lambda item: (item[1][1] - item[1][0], item[0])):
        rail = next((r for r, others in enumerate(taken) if all(last <= a or b <= first for a, b in others)), len(taken))
        if rail == len(taken):
            taken.append([])
        taken[rail].append((first, last))
        found[n] = rail
    return found


def _top(row: int) -> int:
    return row * (HIGH + GAP)


def _box(x: int, row: int, colour: str, head: str, about: str) -> str:
    y = _top(row)
    return (
        f'<g><title>{escape(head)}: {escape(about)}</title><rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="8" fill="{colour}" fill-opacity="0.18" '
        f'stroke="{colour}"/><text x="{x + 10}" y="{y + 19}">{escape(_shortened(head))}</text><text class="note" x="{x + 10}" y="{y + 37}">{escape(_shortened(about))}</text></g>'
    )


def _label(t: TensorFacts) -> str:
    return f"{t.label} {t.dtype}[{', '.join(map(str, t.shape))}]".strip()


def _quoted(text: str) -> str:
    """A text of Graphviz's language."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _shortened(text: str) -> str:
    return text if len(text) <= 36 else text[:35] + "…"


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
