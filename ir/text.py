"""Readable, deterministic text of expressions."""

from __future__ import annotations

from .buffer import load_parts
from .node import Node

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}
_INFIX |= {"xor": "^", "shl": "<<", "shr": ">>", "floordiv": "//", "remainder": "%"}


def number(value: bool | int | float) -> str:
    """A constant as text; floats in a short exact form."""
    return repr(value) if not isinstance(value, float) else f"{value:g}" if float(f"{value:g}") == value else value.hex()


def show(node: Node) -> str:
    """One expression on one line, e.g. `exp(x[m, n] - max[m])`."""
    op, s = node.op, node.src
    if op == "const":
        return number(node.arg)
    if op in ("axis", "sym"):
        return str(node.arg.name)
    if op == "arg":
        return f"${node.arg}"
    if op == "sum":
        coeffs, c = node.arg
        text = " + ".join(show(t) if k == 1 else f"{show(t)}*{k}" for t, k in zip(s, coeffs, strict=True))
        return f"({text} + {c})" if c else text if len(s) == 1 else f"({text})"
    if op == "prod":
        return "*".join(show(t) for t in s)
    if op == "div" and node.arg is not None:
        return f"({show(s[0])} // {node.arg})"
    if op == "mod":
        return f"({show(s[0])} % {node.arg})"
    if op == "load":
        buffer, indices, mask = load_parts(node)
        text = f"{buffer.name}[{', '.join(show(i) for i in indices)}]"
        return text if mask is None else f"({text} if {show(mask)} else 0)"
    if op == "ref":
        return f"{node.arg}[{', '.join(show(i) for i in s)}]" if s else str(node.arg)
    if op == "cast":
        return f"{node.dtype.name}({show(s[0])})"
    if op in _INFIX:
        return f"({show(s[0])} {_INFIX[op]} {show(s[1])})"
    return f"{op}({', '.join(show(x) for x in s)})"
