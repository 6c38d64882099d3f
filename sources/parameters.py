"""Parameters of a source: a name and the values that a search may give it."""

from __future__ import annotations

import ast
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.errors import UsageError

MOST_VALUES = 4096
"""Values of one parameter."""
Value = int | float | bool | str
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?::(\*?)(\d{1,18}))?")


@dataclass(frozen=True)
class SourceParameter:
    """One parameter: its values in order, and the one that the source has untuned (`default`).

    A `flag` parameter's values are words for the compiler; else a value becomes a `#define`."""

    name: str
    values: tuple[Value, ...]
    default: Value
    flag: bool = False

    @property
    def texts(self) -> tuple[str, ...]:
        """What each value is in the source, in the same order."""
        return tuple(text_of(v) for v in self.values)

    @property
    def is_text(self) -> bool:
        """Whether some value is no number."""
        return any(isinstance(v, str) for v in self.values)


def parameter(name: str, values: Iterable[Value], default: Value | None = None, flag: bool = False) -> SourceParameter:
    """A checked parameter; `default` None: the first value. Raises UsageError."""
    if not _WORD.fullmatch(name or ""):
        raise UsageError(f"a parameter's name is a word of letters, digits and underscores, not {name!r}")
    what = "--flag-param" if flag else "--param"
    listed: list[Value] = [values] if isinstance(values, str) else list(values)
    if not listed:
        raise UsageError(f"parameter {name} has no values: write {what} {name}=8,16,32")
    if len(listed) > MOST_VALUES:
        raise UsageError(f"parameter {name} has {len(listed)} values; at most {MOST_VALUES} make sense to search")
    for v in listed:
        if not isinstance(v, (int, float, str)) or (isinstance(v, float) and not math.isfinite(v)):
            raise UsageError(f"parameter {name}: {v!r} is no number, text or truth value")
        if isinstance(v, str) and ("\n" in v or "\0" in v or "\r" in v):
            raise UsageError(f"parameter {name}: the value {v!r} is more than one line")
        if flag:
            try:
                shlex.split(text_of(v))
            except ValueError as e:
                raise UsageError(f"parameter {name}: the flags {v!r} are no words as a shell has them: {e}") from None
    made = SourceParameter(name, tuple(listed), listed[0] if default is None else default, flag)
    texts = made.texts
    double = next((t for t in texts if texts.count(t) > 1), None)
    if double is not None:
        raise UsageError(f"parameter {name} has the value {double} twice")
    if text_of(made.default) not in texts:
        raise UsageError(f"parameter {name}: its default {text_of(made.default)} is not among its values ({shown(texts)})")
    return made


def text_of(value: Value) -> str:
    """A value as the source has it: truth values are 1 and 0."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def shown(texts: Sequence[str]) -> str:
    """A few of many values, for a message."""
    return ", ".join(texts) if len(texts) <= 8 else f"{', '.join(texts[:6])}, ... {texts[-1]}"


def parse(text: str, flag: bool = False) -> SourceParameter:
    """A parameter from `NAME=8,16,32`, `NAME=1..8` (each whole number), `NAME=0..64:8` (each eighth), `NAME=1..64:*2` (doubled each
    time), or several of these with commas between. What is no number is text. Raises UsageError."""
    name, equals, rest = text.partition("=")
    what = "--flag-param" if flag else "--param"
    if not equals:
        raise UsageError(f"{what} {text}: write NAME=VALUE,VALUE or NAME=FIRST..LAST, such as TILE=8,16,32 or UNROLL=1..8")
    values: list[Value] = []
    for part in rest.split(","):
        values += [part.strip()] if flag else _part(name, part.strip())
    return parameter(name.strip(), values, flag=flag)


def _part(name: str, text: str) -> list[Value]:
    found = _RANGE.fullmatch(text)
    if found is None:
        if not text:
            raise UsageError(f"parameter {name}: a value is missing between two commas")
        return [number(text)]
    lo, hi, times, step = int(found[1]), int(found[2]), bool(found[3]), int(found[4] or 1)
    if hi < lo:
        raise UsageError(f"parameter {name}: {text} is empty; write the smaller number first")
    if step < 1 or (times and (step < 2 or lo < 1)):
        raise UsageError(f"parameter {name}: {text} never ends; step by 1 or more, or double from 1 or more (1..64:*2)")
    if not times and (hi - lo) // step >= MOST_VALUES:
        raise UsageError(f"parameter {name}: {text} has {(hi - lo) // step + 1} values; at most {MOST_VALUES} make sense to search")
    out: list[Value] = []
    while lo <= hi:
        out.append(lo)
        lo = lo * step if times else lo + step
    return out


def number(text: str) -> Value:
    """A whole number, a number, or the text itself."""
    for kind in (int, float):
        try:
            found = kind(text)
        except ValueError:
            continue
        if math.isfinite(found):
            return found
    return text


def listed(text: str, what: str) -> list[Value]:
    """Values from a list as other tools' files write it in Python: `[1, 2, 4]`, `range(1, 9)`, `list(range(1, 9))`,
    `[2**i for i in range(5)]`. Nothing of it is run as Python. Raises UsageError."""
    from . import expressions

    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        raise UsageError(f"{what}: the values {text!r} are no list ({e}); write [1, 2, 4] or range(1, 9)") from None

    def value(node: ast.AST, names: dict[str, int]) -> Value:
        found = expressions.parse(ast.unparse(node), dict.fromkeys(names, False), what)(names)
        if not isinstance(found, (int, float, str)):
            raise UsageError(f"{what}: {ast.unparse(node)} is {found!r}, which is no number, text or truth value")
        return found

    def items(node: ast.AST) -> list[Value]:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            if node.func.id in ("list", "tuple", "sorted") and len(node.args) == 1:
                return items(node.args[0])
            if node.func.id == "range" and 1 <= len(node.args) <= 3:
                values = [value(a, {}) for a in node.args]
                ends = [e for e in values if isinstance(e, int) and not isinstance(e, bool)]
                if len(ends) == len(values) and (len(ends) < 3 or ends[2]):
                    numbers = range(*ends)
                    if len(numbers) <= MOST_VALUES:
                        return list(numbers)
        if isinstance(node, (ast.List, ast.Tuple)) and len(node.elts) <= MOST_VALUES:
            return [value(e, {}) for e in node.elts]
        if isinstance(node, ast.ListComp) and len(node.generators) == 1:
            g = node.generators[0]
            if isinstance(g.target, ast.Name) and not g.is_async:
                pairs = [{g.target.id: v} for v in items(g.iter) if isinstance(v, int)]
                return [value(node.elt, p) for p in pairs if all(value(c, p) for c in g.ifs)]
        raise UsageError(f"{what}: the values {text!r} are no list that is understood here; write [1, 2, 4] or range(1, 9)")

    return items(tree)
