"""Readable, deterministic text of expressions, and the order of terms by it."""

from __future__ import annotations

from hashlib import sha256

from .buffer import load_parts
from .node import MASKED, Node, walk

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "eq": "==", "ne": "!=", "and": "&", "or": "|"}
_INFIX |= {"xor": "^", "shl": "<<", "shr": ">>", "floordiv": "//", "remainder": "%"}


def number(value: bool | int | float) -> str:
    """A constant as text; floats in a short exact form."""
    return repr(value) if not isinstance(value, float) else f"{value:g}" if float(f"{value:g}") == value else value.hex()


LONGEST = 20_000
"""Characters of an expression that are shown: what is used many times is written as often, and the rounds of a cipher would fill a disk."""


def show(node: Node) -> str:
    """One expression on one line, e.g. `exp(x[m, n] - max[m])`; of a very long one the beginning."""
    out: list[str] = []
    waiting: list[str | Node] = [node]
    room = LONGEST
    while waiting:  # without recursion: expressions may be deep
        piece = waiting.pop()
        if isinstance(piece, str):
            out.append(piece)
            room -= len(piece)
            if room < 0:
                return "".join((*out, " …"))
        else:
            waiting.extend(reversed(_pieces(piece)))
    return "".join(out)


def _pieces(node: Node) -> list[str | Node]:
    """The text of a node, its operands still nodes."""
    op, s = node.op, node.src
    if op == "const":
        return [number(node.arg)]
    if op in ("axis", "sym"):
        return [str(node.arg.name)]
    if op == "arg":
        return [f"${node.arg}"]
    if op == "sum":
        coeffs, c = node.arg
        terms: list[list[str | Node]] = [[t] if k == 1 else [t, f"*{k}"] for t, k in zip(s, coeffs, strict=True)]
        text = _joined(terms, " + ")
        return ["(", *text, f" + {c})"] if c else text if len(s) == 1 else ["(", *text, ")"]
    if op == "prod":
        return _joined([[t] for t in s], "*")
    if op == "div" and node.arg is not None:
        return ["(", s[0], f" // {node.arg})"]
    if op == "mod":
        return ["(", s[0], f" % {node.arg})"]
    if op == "load":
        buffer, indices, mask = load_parts(node)
        place = [f"{buffer.name}[", *_joined([[i] for i in indices], ", "), "]"]
        return place if mask is None else ["(", *place, " if ", mask, " else 0)"]
    if op == "ref":
        return [f"{node.arg}[", *_joined([[i] for i in s], ", "), "]"] if s else [str(node.arg)]
    if op == MASKED:
        return [f"({node.arg}[", *_joined([[i] for i in s[:-1]], ", "), "] if ", s[-1], " else 0)"]
    if op == "cast":
        return [f"{node.dtype.name}(", s[0], ")"]
    if op in _INFIX:
        return ["(", s[0], f" {_INFIX[op]} ", s[1], ")"]
    return [f"{op}(", *_joined([[x] for x in s], ", "), ")"]


def _joined(parts: list[list[str | Node]], sign: str) -> list[str | Node]:
    out: list[str | Node] = []
    for at, part in enumerate(parts):
        out += [sign, *part] if at else part
    return out


LONG = 4096
"""Nodes of an expression's text, shared ones counted each time, from which terms are ordered by a digest of their structure."""


def order_key(node: Node) -> str:
    """A deterministic sort key for terms, memoised: their text, or a digest where sharing would make the text endless."""
    found = node._memo.get("key")
    if found is None:
        for n in walk(node):
            if "spelt" not in n._memo:
                n._memo["spelt"] = 1 + sum(s._memo["spelt"] for s in n.src)
        found = repr(node) if node._memo["spelt"] < LONG else ""
        if not found or len(found) > LONGEST:  # (of long texts only the beginning is shown, which two terms may have in common)
            found += _digest(node)
        node._memo["key"] = found
    return found


def _digest(node: Node) -> str:
    for n in walk(node):
        if "digest" not in n._memo:
            text = f"{n.op} {n.dtype} {n.arg!r} {' '.join(s._memo['digest'] for s in n.src)}"
            n._memo["digest"] = sha256(text.encode()).hexdigest()
    return f"#{node._memo['digest']}"
