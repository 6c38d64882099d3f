"""A function's kernels in HTML: a section of the report, and a page of its own with the report's style."""

from __future__ import annotations

import re
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from ...ir.kernel_text import kernel_text
from ..terminal.style import bytes_text
from .picture import svg
from .texts import count_text, shape_dtype, summary

if TYPE_CHECKING:
    from .asked import FunctionGraph


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
