"""An option as data: what it does to which axis, tensor or value, and its strict JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from ..ir.errors import OptError

SCHEMA = 1
Scalar = int | str

# op → how its argument is written: 'int', None, or {field: type} of a flat object (all optional fields have defaults)
FIELDS: dict[str, Any] = {
    "TILE": "int",
    "MOVE": {"before": str},
    "UPCAST": "int",
    "UNROLL": "int",
    "PARALLEL": None,
    "LOCAL": "int",
    "GROUP": "int",
    "SPLITK": "int",
    "STAGE": {"at": str, "order": str, "pad": int, "swizzle": int, "depth": int},
    "TC": {"m": str, "n": str, "k": str, "row": str},
    "SWIZZLE": "int",
    "PADTO": "int",
    "NOLOCAL": None,
    "LAUNCH": "int",
    "NT": None,
    "FETCH": None,
    "OWN": "int",
}
DEFAULTS: dict[str, dict[str, Scalar]] = {"STAGE": {"order": "panel", "pad": 0, "swizzle": 0, "depth": 1}, "TC": {"m": ""}}


@dataclass(frozen=True, slots=True)
class Opt:
    """One option. `on` is an axis family, a site (`n@max`) or a loop (`k.t`) for loop options, a buffer or value for STAGE,
    NT and FETCH, a value for TC, `grid` for SWIZZLE, NOLOCAL and LAUNCH. `arg` is an int, None, or sorted (field, scalar) pairs."""

    op: str
    on: str
    arg: int | tuple[tuple[str, Scalar], ...] | None = None

    def __post_init__(self) -> None:
        if self.op not in FIELDS:
            near = get_close_matches(self.op.upper(), FIELDS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise OptError(f"unknown option {self.op!r}{hint} (options: {', '.join(FIELDS)})")
        form = FIELDS[self.op]
        if not isinstance(self.on, str) or not self.on:
            raise OptError(f"{self.op}: name the axis, loop or tensor it acts on")
        if form == "int":
            if not isinstance(self.arg, int) or isinstance(self.arg, bool) or self.arg < 1:
                raise OptError(f"{self.op}({self.on}): the amount must be a positive int, not {self.arg!r}")
        elif form is None:
            if self.arg is not None:
                raise OptError(f"{self.op}({self.on}) takes no argument, got {self.arg!r}")
        else:
            object.__setattr__(self, "arg", _fields(self.op, self.on, form, self.arg))

    @property
    def fields(self) -> dict[str, Scalar]:
        """The object argument with defaults filled in."""
        return {**DEFAULTS.get(self.op, {}), **dict(self.arg if isinstance(self.arg, tuple) else ())}

    @property
    def amount(self) -> int:
        """The int argument."""
        assert isinstance(self.arg, int)
        return self.arg

    @property
    def json(self) -> list[Any]:
        """`["TILE", "k", 256]` or `["STAGE", "b", {"at": "n"}]`."""
        if self.arg is None:
            return [self.op, self.on]
        return [self.op, self.on, dict(self.arg) if isinstance(self.arg, tuple) else self.arg]

    def __str__(self) -> str:
        if self.arg is None:
            return f"{self.op}({self.on})"
        text = ", ".join(f"{k}={v}" for k, v in self.arg) if isinstance(self.arg, tuple) else str(self.arg)
        return f"{self.op}({self.on}, {text})"


Opts = tuple[Opt, ...]


def _fields(op: str, on: str, form: dict[str, type], arg: Any) -> tuple[tuple[str, Scalar], ...]:
    if arg is not None and not isinstance(arg, (tuple, dict)):
        raise OptError(f"{op}({on}): the argument must be an object with the fields {', '.join(form)}, not {arg!r}")
    items = dict(arg or ())
    defaults = DEFAULTS.get(op, {})
    for name, value in items.items():
        if name not in form:
            raise OptError(f"{op}({on}): unknown field {name!r} (fields: {', '.join(form)})")
        if not isinstance(value, form[name]) or isinstance(value, bool):
            raise OptError(f"{op}({on}): field {name} must be {form[name].__name__}, not {value!r}")
    missing = [f for f in form if f not in items and f not in defaults]
    if missing:
        raise OptError(f"{op}({on}): missing field {', '.join(missing)}")
    return tuple(sorted((k, v) for k, v in items.items() if defaults.get(k) != v))


def opt(op: str, on: str, arg: Any = None, **fields: Scalar) -> Opt:
    """Shorthand: `opt("TILE", "k", 256)`, `opt("STAGE", "b", at="n")`."""
    return Opt(op, on, tuple(fields.items()) if fields else arg)


def parse(text: str | Sequence[Any]) -> Opts:
    """Options from JSON text or its decoded list; OptError says which entry is wrong."""
    if isinstance(text, str):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise OptError(f"options are not JSON: {e}") from e
    else:
        data = text
    if not isinstance(data, (list, tuple)):
        raise OptError('options must be a list such as [["TILE", "k", 256]]')
    out = []
    for i, item in enumerate(data):
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


_SHORT = {
    "TILE": "T", "MOVE": "M", "UPCAST": "U", "UNROLL": "R", "PARALLEL": "P", "LOCAL": "L", "GROUP": "G", "SPLITK": "K", "STAGE": "S", "TC": "TC", "SWIZZLE": "Z",
    "PADTO": "PAD", "NOLOCAL": "NOLOCAL", "LAUNCH": "REGS", "NT": "NT", "FETCH": "F", "OWN": "OWN",
}  # fmt: skip


def short(opts: Iterable[Opt]) -> str:
    """One dense line: `Um8 Un32 Tn128 Pn Sb@n`."""
    return " ".join(_short(o) for o in opts) or "(none)"


def _short(o: Opt) -> str:
    head = _SHORT[o.op]
    if o.op == "STAGE":
        f = o.fields
        return (
            f"{head}{o.on}@{f['at']}"
            + ("/row" if f["order"] == "row" else "")
            + (f"+{f['pad']}" if f["pad"] else "")
            + (f"^{f['swizzle']}" if f["swizzle"] else "")
        )
    if o.op == "TC":
        return f"{head}{o.on}:{o.fields['row']}"
    if o.op == "MOVE":
        return f"{head}{o.on}<{o.fields['before']}"
    if o.on == "grid":
        return f"{head}{'' if o.arg is None else o.arg}"
    return f"{head}{o.on}{'' if o.arg is None else o.arg}"
