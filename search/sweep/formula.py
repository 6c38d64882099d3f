"""Extents as formulas over a model's values: `4*hidden`, `heads*head_dim`, `(tokens+127)//128*128`. Read strictly; nothing is evaluated
but whole numbers, names, `+ - * // %`, `min`, `max` and brackets."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

from ...ir.errors import UsageError

MAX_TEXT = 200
MOST = 1 << 48
"""No extent, and nothing on the way to one, is larger."""
_OPS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_CALLS: dict[str, Callable[..., int]] = {"min": min, "max": max}
SAYS = "a formula has whole numbers, names of values, + - * // %, min(), max() and brackets"


def names(text: str) -> frozenset[str]:
    """The values that a formula needs. Raises UsageError for what is no formula."""
    tree = _parsed(text)
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called)


def value(text: str, values: Mapping[str, int]) -> int:
    """What a formula is with these values. Raises UsageError, also for a division by zero and a result that is no extent."""
    found = _value(_parsed(text).body, values, text)
    if not 1 <= found <= MOST:
        raise UsageError(f"{text!r} is {found}, and an extent is at least 1")
    return found


def _parsed(text: str) -> ast.Expression:
    try:
        if len(text) > MAX_TEXT:
            raise ValueError
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"{text[:MAX_TEXT]!r} is no formula: {SAYS}") from None
    for n in ast.walk(tree):
        if isinstance(n, ast.Call):
            sound = isinstance(n.func, ast.Name) and n.func.id in _CALLS and n.args and not n.keywords
        elif isinstance(n, ast.Constant):
            sound = type(n.value) is int
        else:
            sound = isinstance(n, ast.Expression | ast.BinOp | ast.Name | ast.Load | ast.operator) and (
                not isinstance(n, ast.BinOp) or type(n.op) in _OPS
            )
        if not sound:
            raise UsageError(f"{text!r} is no formula: {SAYS}")
    return tree


def _value(node: ast.AST, values: Mapping[str, int], text: str) -> int:
    if isinstance(node, ast.Constant):
        found = node.value
        assert isinstance(found, int)
    elif isinstance(node, ast.Name):
        if node.id not in values:
            raise UsageError(f"{text!r} needs {node.id}, which has no value")
        found = values[node.id]
    elif isinstance(node, ast.Call):
        assert isinstance(node.func, ast.Name)
        found = _CALLS[node.func.id](_value(a, values, text) for a in node.args)
    else:
        assert isinstance(node, ast.BinOp)
        try:
            found = _OPS[type(node.op)](_value(node.left, values, text), _value(node.right, values, text))
        except ZeroDivisionError:
            raise UsageError(f"{text!r} divides by zero") from None
    if abs(found) > MOST:
        raise UsageError(f"{text!r} is larger than any extent")
    return found
