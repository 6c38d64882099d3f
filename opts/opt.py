"""An option as data: what it does to which axis, tensor or value, and its strict JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..ir.errors import OptError
from . import short_form
from .syntax import SET, SYNTAX, Scalar, Syntax

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Opt:
    """One option. `on` is what its form says: an axis family, a site (`n@max`), a loop (`k.t`), a buffer or value, or
    `grid`. `arg` is an int, None, or sorted (field, scalar) pairs; an int also where a form has fields and all but its amount are at
    their defaults. OptError where it is not written as its form says."""

    op: str
    on: str
    arg: int | tuple[tuple[str, Scalar], ...] | None = None

    def __post_init__(self) -> None:
        syntax = SYNTAX.get(self.op)
        if syntax is None:
            near = get_close_matches(self.op.upper(), SYNTAX, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptError(f"unknown option {self.op!r}{hint} (options: {', '.join(s for s in SYNTAX if s != SET.name)})")
        if not isinstance(self.on, str) or not self.on:
            raise OptError(f"{self.op}: name the axis, loop or tensor it acts on")
        if syntax.arg is int:
            if not isinstance(self.arg, int) or isinstance(self.arg, bool) or self.arg < 1:
                raise OptError(f"{self.op}({self.on}): the amount must be a positive int, not {self.arg!r}")
        elif syntax.arg is None:
            if self.arg is not None:
                raise OptError(f"{self.op}({self.on}) takes no argument, got {self.arg!r}")
        else:
            object.__setattr__(self, "arg", _fields(syntax, self.on, self.arg))

    @property
    def fields(self) -> dict[str, Scalar]:
        """The object argument with defaults filled in."""
        syntax = SYNTAX[self.op]
        given = {syntax.amount: self.arg} if isinstance(self.arg, int) else dict(self.arg or ())
        return {**syntax.defaults, **given}

    @property
    def amount(self) -> int:
        """The int argument, or the field that stands for it."""
        found = self.arg if isinstance(self.arg, int) else self.fields[SYNTAX[self.op].amount]
        assert isinstance(found, int)
        return found

    @property
    def json(self) -> list[Any]:
        """`["TILE", "k", 256]` or `["STAGE", "b", {"at": "n"}]`."""
        if self.arg is None:
            return [self.op, self.on]
        return [self.op, self.on, dict(self.arg) if isinstance(self.arg, tuple) else self.arg]

    def __str__(self) -> str:
        syntax = SYNTAX[self.op]
        given: list[tuple[str, Scalar]] = [(syntax.amount, self.arg)] if isinstance(self.arg, int) else list(self.arg or ())
        if isinstance(syntax.arg, Mapping):
            declared = list(syntax.arg)
            given.sort(key=lambda pair: declared.index(pair[0]))
        words = [self.on] * (syntax.on != "grid" or not given or self.on != "grid")
        words += [str(v) for k, v in given if k == syntax.amount] + [f"{k}={v}" for k, v in given if k != syntax.amount]
        return f"{self.op}({', '.join(words)})"


Opts = tuple[Opt, ...]


def _fields(syntax: Syntax, on: str, arg: Any) -> int | tuple[tuple[str, Scalar], ...] | None:
    """An argument with fields in its one form: an int where only the amount is not at its default, None where nothing is."""
    op, types, defaults = syntax.name, syntax.arg, syntax.defaults
    assert isinstance(types, Mapping)
    if syntax.amount and isinstance(arg, int) and not isinstance(arg, bool):
        arg = {syntax.amount: arg}
    if arg is not None and not isinstance(arg, (tuple, dict)):
        raise OptError(f"{op}({on}): the argument must be an object with the fields {', '.join(types)}, not {arg!r}")
    items = dict(arg or ())
    for name, value in items.items():
        if name not in types:
            raise OptError(f"{op}({on}): unknown field {name!r} (fields: {', '.join(types)})")
        if not isinstance(value, types[name]) or isinstance(value, bool):
            raise OptError(f"{op}({on}): field {name} must be {types[name].__name__}, not {value!r}")
    missing = [f for f in types if f not in items and f not in defaults]
    if missing:
        raise OptError(f"{op}({on}): missing field {', '.join(missing)}")
    amount = items.get(syntax.amount, 1)
    if isinstance(amount, int) and amount < 1:
        raise OptError(f"{op}({on}): the amount must be a positive int, not {amount!r}")
    left = tuple(sorted((k, v) for k, v in items.items() if defaults.get(k) != v))
    if [k for k, _ in left] == [syntax.amount]:
        assert isinstance(amount, int)
        return amount
    return left or None


def opt(op: str, on: str, arg: Any = None, **fields: Scalar) -> Opt:
    """Shorthand: `opt("TILE", "k", 256)`, `opt("STAGE", "b", at="n")`."""
    return Opt(op, on, tuple(fields.items()) if fields else arg)


def parse(text: str | Sequence[Any]) -> Opts:
    """Options from a text in short form (`Um8 Pn`, `UPCAST(m, 8)`) or JSON, or from the decoded list of JSON; OptError
    says which entry is wrong."""
    if not isinstance(text, str):
        data: Any = text
    elif not short_form.is_json(text):
        data = short_form.read(text)
    else:
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise OptError(f"options are not JSON: {e}") from e
    if not isinstance(data, (list, tuple)):
        raise OptError('options must be a list such as [["TILE", "k", 256]]')
    out = []
    for i, item in enumerate(data, 1):
        if isinstance(item, Opt):
            out.append(item)
            continue
        if not isinstance(item, (list, tuple)) or not 2 <= len(item) <= 3 or not all(isinstance(x, str) for x in item[:2]):
            raise OptError(f'option {i}: expected ["OP", "on", argument], got {item!r}')
        arg = item[2] if len(item) == 3 else None
        if isinstance(arg, dict):
            arg = tuple(arg.items())
        elif arg is not None and not isinstance(arg, int):
            raise OptError(f"option {i}: argument {arg!r} is neither an int nor an object")
        out.append(Opt(item[0], item[1], arg))
    return tuple(out)


def dumps(opts: Iterable[Opt]) -> str:
    """Compact JSON text; `parse` gives the same options back."""
    return json.dumps([o.json for o in opts], separators=(",", ":"))


def short(opts: Iterable[Opt]) -> str:
    """One dense line: `Um8 Un32 Tn128 Pn Sb@n`; `parse` gives the same options back."""
    return " ".join(short_form.write(o.op, o.on, _argument_of(o)) for o in opts) or short_form.NONE


def _argument_of(o: Opt) -> int | Mapping[str, Scalar] | None:
    """Its amount, or all its fields."""
    if isinstance(SYNTAX[o.op].arg, Mapping):
        return o.fields
    assert not isinstance(o.arg, tuple)
    return o.arg
