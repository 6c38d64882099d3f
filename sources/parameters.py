"""Parameters of a source, and the combinations of them that restrictions leave, found by trying all in a clever order.

Parameters that no restriction joins are independent, so each group of joined ones is a factor of its own, and the space is their product,
which is never written down. Within a group the loops over its parameters are nested in an order in which restrictions can be asked early,
and each restriction stands at the first loop where all that it names is known: what it refuses costs none of the loops inside. The loops
are one generated function of checked expressions (`expressions`), so that a million combinations take a fraction of a second."""

from __future__ import annotations

import ast
import functools
import math
import re
import shlex
import time
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

from ..ir.errors import UsageError
from ..search import expressions
from ..search.expressions import ENVIRONMENT, Expression, conjuncts

if TYPE_CHECKING:
    import numpy as np

    Table = np.ndarray[Any, np.dtype[np.uint16]]


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


At = tuple[int, ...]
"""The place of each parameter's value."""
MOST_ROWS = 20_000_000
"""Combinations of one group that are listed."""
MOST_S = 120.0
"""Seconds that listing one group may take."""


@dataclass(frozen=True)
class JoinedParameters:
    """A group of parameters that restrictions join: which ones (`places`), and every combination of the places of their values,
    in ascending order of `codes`."""

    places: tuple[int, ...]
    rows: Table
    codes: Any
    radix: tuple[int, ...]

    def holds(self, at: At) -> bool:
        """Whether a point's values of these parameters go together."""
        import numpy as np

        code = sum(at[p] * r for p, r in zip(self.places, self.radix, strict=True))
        i = int(np.searchsorted(self.codes, code))
        return i < len(self.codes) and int(self.codes[i]) == code


class Lattice:
    """All legal points of a space. `size`: how many there are; `whole`: how many there would be without restrictions."""

    def __init__(self, parameters: Sequence[SourceParameter], restrictions: Sequence[Expression], sizes: Mapping[str, Any]) -> None:
        """Raises UsageError where the restrictions leave nothing, and says which of them does so, or where they leave too many to list."""
        self.parameters = tuple(parameters)
        self.whole = math.prod(len(p.values) for p in parameters)
        self._wanted, self._sizes = [c for r in restrictions for c in conjuncts(r)], sizes
        wanted = self._wanted
        self._fixed(wanted, sizes)
        self.factors = [self._factor(places, wanted, sizes) for places in _groups(parameters, wanted)]
        self.size = math.prod(len(f.rows) for f in self.factors)
        if not self.size:
            raise UsageError(self._nothing(wanted, sizes))

    def __contains__(self, at: At) -> bool:
        return all(f.holds(at) for f in self.factors)

    def refusal(self, at: At) -> str:
        """Which restriction refuses a point that is not legal."""
        of = {p.name for p in self.parameters}
        values = {**self._sizes, **{p.name: p.values[i] for p, i in zip(self.parameters, at, strict=True)}}
        r = next(r for r in self._wanted if not r(values))
        return f"the restriction {r.text!r} refuses {', '.join(f'{n}={values[n]}' for n in r.names if n in of)}"

    def draw(self, rng: Random) -> At:
        """A point, all of them as likely as each other."""
        return self._point([rng.randrange(len(f.rows)) for f in self.factors])

    def __iter__(self) -> Iterator[At]:
        """Every point, the last group's parameters changing fastest."""
        return map(self._point, _counted([len(f.rows) for f in self.factors]))

    def _point(self, which: Sequence[int]) -> At:
        out = [0] * len(self.parameters)
        for f, i in zip(self.factors, which, strict=True):
            for p, v in zip(f.places, f.rows[i].tolist(), strict=True):
                out[p] = v
        return tuple(out)

    def nearest(self, at: At) -> At:
        """The legal point with the fewest other values, and those as near as can be: what a default becomes that a restriction refuses."""
        import numpy as np

        out = list(at)
        for f in self.factors:
            if f.holds(at):
                continue
            want = np.array([at[p] for p in f.places], dtype=np.int64)
            away = np.abs(f.rows.astype(np.int64) - want)
            best = int(np.lexsort((away.sum(1), (away != 0).sum(1)))[0])
            for p, v in zip(f.places, f.rows[best].tolist(), strict=True):
                out[p] = v
        return tuple(out)

    # finding the points ---------------------------------------------------------------------------------------------
    def _fixed(self, wanted: Sequence[Expression], sizes: Mapping[str, Any]) -> None:
        """Restrictions of sizes alone hold or do not."""
        names = {p.name for p in self.parameters}
        for r in wanted:
            if not names & set(r.names) and not r(sizes):
                raise UsageError(f"the restriction {r.text!r} excludes every configuration: it names no parameter, and does not hold")

    def _factor(self, places: tuple[int, ...], wanted: Sequence[Expression], sizes: Mapping[str, Any]) -> JoinedParameters:
        import numpy as np

        here = {self.parameters[p].name for p in places}
        mine = [r for r in wanted if here & set(r.names)]
        order = _order([self.parameters[p] for p in places], mine)
        flat = _listed(order, mine, sizes)
        at = {p.name: i for i, p in enumerate(order)}
        rows = np.frombuffer(flat, dtype=np.uint16).reshape(-1, len(order))[:, [at[self.parameters[p].name] for p in places]]
        counts = [len(self.parameters[p].values) for p in places]
        radix = tuple(math.prod(counts[i + 1 :]) for i in range(len(counts)))
        # codes of more than 63 bits are Python's numbers
        kind: Any = np.int64 if math.prod(counts) < 1 << 62 else object
        codes = sum((rows[:, i].astype(kind) * r for i, r in enumerate(radix)), np.zeros(len(rows), kind))
        by = np.argsort(codes, kind="stable")
        return JoinedParameters(places, np.ascontiguousarray(rows[by]), codes[by], radix)

    def _nothing(self, wanted: Sequence[Expression], sizes: Mapping[str, Any]) -> str:
        """Which restriction is at fault."""
        for r in wanted:
            own = [p for p in self.parameters if p.name in r.names]
            if own and not len(_listed(own, [r], sizes, 1)):
                values = "; ".join(f"{p.name} is one of {shown(p.texts)}" for p in own)
                return f"the restriction {r.text!r} excludes every configuration ({values}): mend it, or give other values"
        texts = " and ".join(repr(r.text) for r in wanted)
        return f"the restrictions together exclude every configuration: {texts}. Each alone leaves some: mend one of them, or give other values"


def _groups(parameters: Sequence[SourceParameter], wanted: Sequence[Expression]) -> list[tuple[int, ...]]:
    """Places of parameters, those together that restrictions join."""
    place = {p.name: i for i, p in enumerate(parameters)}
    group = {i: {i} for i in range(len(parameters))}
    for r in wanted:
        joined = set().union(*(group[place[n]] for n in r.names if n in place))
        for i in joined:
            group[i] = joined
    return list(dict.fromkeys(tuple(sorted(g)) for g in group.values()))


def _order(parameters: Sequence[SourceParameter], wanted: Sequence[Expression]) -> list[SourceParameter]:
    """The order of loops: next those of the restriction that the fewest combinations more make known."""
    left = {p.name: p for p in parameters}
    out: list[SourceParameter] = []
    asked = [{n for n in r.names if n in left} for r in wanted]
    while left:
        open_ = [a & left.keys() for a in asked if a & left.keys()]
        best = min(open_, key=lambda a: math.prod(len(left[n].values) for n in a), default=set(left))
        for name in sorted(best, key=lambda n: len(left[n].values)):
            out.append(left.pop(name))
    return out


def _listed(order: Sequence[SourceParameter], wanted: Sequence[Expression], sizes: Mapping[str, Any], most: int = MOST_ROWS) -> array[int]:
    """The places of all values that go together, one combination after another; with `most` 1, at most one of them."""
    out: array[int] = array("H")
    if any(len(p.values) > 1 << 16 for p in order):
        raise UsageError("a parameter has more than 65536 values")
    began = time.monotonic()

    def tick() -> None:
        if len(out) > most * len(order):
            raise _Enough
        if time.monotonic() - began > MOST_S:
            raise UsageError(
                f"listing the combinations of {', '.join(p.name for p in order)} takes longer than {MOST_S:.0f} s: give fewer values, or restrictions "
                "that name few parameters each"
            )

    run = _loops(order, wanted, sizes)
    try:
        run([p.values for p in order], out.extend, tick)
    except _Enough:
        if most > 1:
            raise UsageError(
                f"the restrictions leave more than {most} combinations of {', '.join(p.name for p in order)}, which they join: give fewer values, or "
                "a stricter restriction"
            ) from None
    except (ArithmeticError, TypeError, ValueError) as e:
        raise UsageError(f"a restriction has no value for some combination: {e} ({' and '.join(r.text for r in wanted)})") from None
    return out


class _Enough(Exception):
    """As many as are wanted were found."""


def _loops(order: Sequence[SourceParameter], wanted: Sequence[Expression], sizes: Mapping[str, Any]) -> Callable[..., None]:
    """The nested loops as a function of (values of each parameter, what takes a combination, what is called now and then)."""
    names = {p.name: f"v{i}" for i, p in enumerate(order)}
    level = {p.name: i for i, p in enumerate(order)}
    tests: list[list[str]] = [[] for _ in order]
    for r in wanted:
        at = max((level[n] for n in r.names if n in level), default=0)
        tests[at].append(ast.unparse(_Renamed(names, sizes).visit(ast.parse(ast.unparse(r.tree), mode="eval"))))
    lines = ["def run(values, take, tick):"]
    for i in range(len(order)):
        pad = "    " * (i + 1)
        lines.append(f"{pad}for i{i}, v{i} in enumerate(values[{i}]):")
        # the two innermost loops are left alone: they are short, and everything is paid for there
        if i < max(1, len(order) - 2):
            lines.append(f"{pad}    tick()")
        lines += [f"{pad}    if not ({t}): continue" for t in tests[i]]
    lines.append(f"{'    ' * (len(order) + 1)}take(({', '.join(f'i{i}' for i in range(len(order)))},))")
    if len(order) <= 1:
        lines.append("    tick()")
    space: dict[str, Any] = {**ENVIRONMENT, "enumerate": enumerate}
    exec("\n".join(lines), space)  # loops, and expressions that `parse` let through
    run: Callable[..., None] = space["run"]
    return run


class _Renamed(ast.NodeTransformer):
    """Parameters by names of ours, which are no words of Python; sizes by their values."""

    def __init__(self, names: Mapping[str, str], sizes: Mapping[str, Any]) -> None:
        self.names, self.sizes = names, sizes

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.names:
            return ast.Name(self.names[node.id], ast.Load())
        return ast.Constant(self.sizes[node.id]) if node.id in self.sizes else node


def _counted(counts: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Every tuple of numbers below these counts, without listing any."""
    return functools.reduce(_joined, ((range(c),) for c in counts), iter([()]))


def _joined(before: Iterator[tuple[int, ...]], more: tuple[range]) -> Iterator[tuple[int, ...]]:
    return ((*a, b) for a in before for b in more[0])
