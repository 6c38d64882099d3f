"""Writes the table of operators in docs/onnx.md: every operator of ONNX, and what becomes of it.

    python docs/make_onnx.py

`tests/bridges/test_onnx.py` compares the page with what this makes."""

from __future__ import annotations

import warnings
from pathlib import Path

import onnx
from tilewright.bridges.onnx.operators import OPERATORS

PAGE = Path(__file__).with_name("onnx.md")
BEGIN, END = "<!-- operators -->\n", "<!-- end of operators -->"
HOST = {"DFT", "STFT", "Det", "BitCast"}
BY_NODE = {"NonZero", "Compress", "Unique", "NonMaxSuppression", "If", "Loop"}
KNOWN_SIZES = {"Shape", "Size", "Constant"}


def state(schema: onnx.defs.OpSchema) -> str:
    """What becomes of an operator."""
    name = schema.name
    types = {t for i in schema.inputs for t in i.types} | {t for o in schema.outputs for t in o.types}
    if ("", name) in OPERATORS:
        return (
            "NumPy on the host"
            if name in HOST
            else "node by node where data decides"
            if name in BY_NODE
            else "known"
            if name in KNOWN_SIZES
            else "kernels"
        )
    if schema.has_function or schema.has_context_dependent_function:
        return "its function body"
    return "out of scope" if all(t.startswith(("seq", "optional")) or "string" in t for t in types) else "not supported"


def made(page: str) -> str:
    """The page with its table."""
    newest = {s.name: s for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    states: dict[str, list[str]] = {}
    for name, schema in sorted(newest.items()):
        states.setdefault(state(schema), []).append(name)
    contrib = sorted(name for domain, name in OPERATORS if domain == "com.microsoft")
    rows = [
        ("kernels", ""),
        ("its function body", ""),
        ("known", ""),
        ("node by node where data decides", ""),
        ("NumPy on the host", ""),
        ("not supported", ""),
        ("out of scope", ""),
    ]
    lines = ["| state | operators |", "|---|---|"]
    lines += [f"| {what} | {' '.join(states[what])} |" for what, _ in rows if what in states]
    lines.append(f"| `com.microsoft`, kernels | {' '.join(contrib)} |")
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return head + BEGIN + "\n" + "\n".join(lines) + "\n\n" + END + tail


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    PAGE.write_text(made(PAGE.read_text()))
