"""Expressions of parameters and sizes, as restrictions, launch sizes and arguments hold them.

A text is parsed, and every node of it must be one of those below: arithmetic, comparisons, `and`, `or`, `not`, `in`,
a choice (`a if c else b`) and calls of a few functions. There are no attributes, no indexing and no other names, so
what is left cannot reach anything. Powers and shifts are bounded, and text cannot be computed with, so that no short
expression makes a huge number or a huge text. Only then is it compiled, because a space of a million combinations
asks it a million times."""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..ir.errors import UsageError

MOST_TEXT = 2000
"""Characters of an expression."""
_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr),
    *(ast.BitXor, ast.And, ast.Or, ast.Not, ast.UAdd, ast.USub, ast.Invert, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt),
    *(ast.GtE, ast.In, ast.NotIn),
)
_NODES = (
    *(ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Name, ast.Load, ast.Constant, ast.Call),
    *(ast.Tuple, ast.List),
)
_BOUND_BITS = 256
"""Bits of a result of a power or a shift."""
_END = 1 << 62
"""Whole numbers that are used are below."""
_MATH = ("math", "np", "numpy")
"""Modules in whose name a function may be called, as other tools' files do."""


def _power(a: Any, b: Any) -> Any:
    """a ** b, where that is a number of a reasonable size. Raises ValueError."""
    if abs(b) > _BOUND_BITS or (abs(a) > 1 and abs(b) * math.log2(abs(a)) > _BOUND_BITS):
        raise ValueError("a power that large")
    return a**b


def _shift(a: Any, b: Any) -> Any:
    """a << b, where that is a number of a reasonable size. Raises ValueError."""
    if not 0 <= b <= _BOUND_BITS:
        raise ValueError("a shift that far")
    return a << b


def _round(a: Any, digits: Any = None) -> Any:
    """round(a, digits), where that takes no power of ten of an unreasonable size. Raises ValueError."""
    if digits is not None and abs(digits) > _BOUND_BITS:
        raise ValueError("rounding to that many digits")
    return round(a, digits)


def ceil_div(a: Any, b: Any) -> Any:
    """The least whole number that is not below a / b, exact for whole numbers of any size."""
    return -(-a // b)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "min": min,
    "max": max,
    "abs": abs,
    "ceil": math.ceil,
    "floor": math.floor,
    "round": _round,
    "int": int,
    "float": float,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "gcd": math.gcd,
    "ceil_div": ceil_div,
}
"""What may be called."""
_HELPERS: Mapping[str, Callable[..., Any]] = {"_power": _power, "_shift": _shift}


@dataclass(frozen=True)
class Expression:
    """One expression: its text, the names that it needs, and `code`, which `evaluate` runs."""

    text: str
    names: tuple[str, ...]
    tree: ast.Expression = field(compare=False, repr=False)
    code: Any = field(compare=False, repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return parse, (self.text,)

    def __call__(self, values: Mapping[str, Any]) -> Any:
        """The value where names have these values. Raises UsageError that says which values did not work."""
        try:
            return eval(self.code, dict(ENVIRONMENT), dict(values))  # only nodes that `parse` let through
        except (ArithmeticError, TypeError, ValueError) as e:
            used = ", ".join(f"{n}={values.get(n)}" for n in self.names)
            raise UsageError(f"{self.text!r} has no value{f' where {used}' if used else ''}: {e}") from None

    def whole(self, values: Mapping[str, Any], what: str, least: int = 0) -> int:
        """The value as a whole number of at least `least`; `what` is for messages. Raises UsageError."""
        found = self(values)
        number = isinstance(found, (int, float)) and not isinstance(found, bool)
        # the range first: it refuses infinities and NaN, which are no whole number, and numbers that are too long to be shown
        if not number or not least <= found < _END or found != int(found):
            used = ", ".join(f"{n}={values.get(n)}" for n in self.names)
            shown = "more than 2^62" if number and found >= _END else repr(found)
            raise UsageError(
                f"{what} {self.text!r} is {shown}{f' where {used}' if used else ''}; it must be a whole number of at least {least} "
                "(ceil(...) and // make whole numbers)"
            )
        return int(found)


ENVIRONMENT: Mapping[str, Any] = {"__builtins__": {}, **FUNCTIONS, **_HELPERS}
"""What compiled expressions see beside their names."""


def parse(text: str, known: Mapping[str, bool] | None = None, what: str = "the expression") -> Expression:
    """An expression, checked. `known`: the names that there are, and whether each stands for text. `&&` and `||` may stand for
    `and` and `or`. Raises UsageError that says what is not allowed."""
    if not isinstance(text, str):
        raise UsageError(f"{what} is {text!r}, which is no text: write something like 'TILE % UNROLL == 0'")
    where = f"{what} {text if len(text) < 100 else text[:96] + '...'!r}"
    if not text.strip():
        raise UsageError(f"{what} is empty: write something like 'TILE % UNROLL == 0'")
    if len(text) > MOST_TEXT:
        raise UsageError(f"{where} is longer than {MOST_TEXT} characters: split it, one restriction each")
    try:
        with warnings.catch_warnings():  # an odd expression is a mistake to be told below, not Python's warning
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text.strip().replace("&&", " and ").replace("||", " or "), mode="eval")
            tree = ast.fix_missing_locations(_Checked(where, known or {}).visit(tree))
            code = compile(tree, "<expression>", "eval")
    except SyntaxError as e:
        hint = "; write `not x` for `!x`" if "!" in text.replace("!=", "") else ""
        raise UsageError(f"{where} is not an expression: {e.msg}{hint}") from None
    except (RecursionError, MemoryError, ValueError) as e:
        raise UsageError(f"{where} cannot be read: {e}") from None
    names = dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in ENVIRONMENT)
    for name in names:
        if known is not None and name not in known:
            from difflib import get_close_matches

            near = get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known) or 'none'}"
            raise UsageError(f"{where}: there is no parameter or size {name!r}; {hint}")
    return Expression(text.strip(), tuple(names), tree, code)


class _Checked(ast.NodeTransformer):
    """Refuses what an expression may not hold, and puts bounded powers and shifts in the place of Python's."""

    def __init__(self, where: str, texts: Mapping[str, bool]) -> None:
        self.where, self.texts = where, texts

    def refuse(self, what: str) -> UsageError:
        return UsageError(
            f"{self.where}: {what} is not allowed; use numbers, parameters, + - * / // % **, comparisons, and, or, not, in, and "
            f"{', '.join(FUNCTIONS)}"
        )

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if not isinstance(node, (*_NODES, *_OPERATORS)):
            raise self.refuse(type(node).__name__.lower())
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if not isinstance(node.value, (int, float, str, bool)):
            raise self.refuse(repr(node.value))
        return node

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id.startswith("__") or (node.id in _HELPERS):
            raise self.refuse(node.id)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = node.func
        if isinstance(name, ast.Attribute) and isinstance(name.value, ast.Name) and name.value.id in _MATH:
            name = ast.Name(name.attr, ast.Load())
        if not isinstance(name, ast.Name) or name.id not in FUNCTIONS:
            raise self.refuse(f"calling {ast.unparse(node.func)}")
        if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
            raise self.refuse("a call with keywords or *")
        if name.id in ("int", "float") and any(self.text(a) for a in node.args):
            raise self.refuse("making a number of text")
        return ast.Call(name, [self.visit(a) for a in node.args], [])

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        for op, right in zip(node.ops, node.comparators):
            if isinstance(op, (ast.In, ast.NotIn)) and not isinstance(right, (ast.Tuple, ast.List)):
                raise self.refuse("`in` without a list in brackets")
        self.generic_visit(node)
        return node

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        if self.text(node.left) or self.text(node.right):
            raise self.refuse("computing with text or a list")
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, (ast.Pow, ast.LShift)):
            helper = "_power" if isinstance(node.op, ast.Pow) else "_shift"
            return ast.Call(ast.Name(helper, ast.Load()), [left, right], [])
        self.generic_visit(node.op)
        return ast.BinOp(left, node.op, right)

    def text(self, node: ast.AST) -> bool:
        """Whether a node may stand for text or a list."""
        if isinstance(node, ast.Constant):
            return isinstance(node.value, str)
        if isinstance(node, ast.Name):
            return self.texts.get(node.id, False)
        if isinstance(node, (ast.Tuple, ast.List)):
            return True
        inner = {ast.IfExp: ("body", "orelse"), ast.BoolOp: ("values",), ast.Call: ("args",)}.get(type(node), ())
        found = [getattr(node, f) for f in inner]
        return any(self.text(n) for x in found for n in (x if isinstance(x, list) else [x]))


def conjuncts(e: Expression) -> list[Expression]:
    """The parts of an expression that `and` joins: each can be asked as soon as its own names have values."""
    body = e.tree.body
    parts = body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]
    out: list[Expression] = []
    for part in parts:
        tree = ast.Expression(part)
        names = dict.fromkeys(n.id for n in ast.walk(part) if isinstance(n, ast.Name) and n.id not in ENVIRONMENT)
        made = Expression(ast.unparse(part), tuple(names), tree, compile(tree, "<expression>", "eval"))
        out += [made] if part is body else conjuncts(made)
    return out
