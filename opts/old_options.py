"""Options of earlier versions, and the options that took their place.

Bundles, rows of the cache, manifests, locks, recorded results and what people kept in files hold schedules as text. `opt.parse` reads
old names there by this table, in JSON, in the short form and as messages wrote them. What is written has new names only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.errors import OptError
from .syntax import Scalar, Syntax

Replaced = tuple[str, str, int | dict[str, Scalar] | None]
"""An option as plain data: its name, what it is on, and its argument."""


@dataclass(frozen=True)
class OldOption:
    """How an option was written, and what it is now, of what it is on and its argument."""

    form: Syntax
    now: Callable[[str, Any], Replaced]

    @property
    def instead(self) -> str:
        """How it is written now, with n for an amount."""
        op, on, arg = self.now(self.form.on, "n")
        given = arg.items() if isinstance(arg, dict) else ()
        return f"{op}({', '.join([on, *(f'{k}={v}' for k, v in given)])})"


def _fields(op: str, **names: str) -> Callable[[str, Any], Replaced]:
    """The option `op` with some fields: the new name of each old one; `amount` is a bare number."""

    def now(on: str, arg: Any) -> Replaced:
        given = dict(arg) if isinstance(arg, Mapping) else {"amount": arg}
        return op, on, {names.get(k, k): v for k, v in given.items()}

    return now


def _with(op: str, **fields: Scalar) -> Callable[[str, Any], Replaced]:
    """The option `op` with these fields, of an option without an argument."""
    return lambda on, arg: (op, on, dict(fields))


_TABLE = (
    OldOption(Syntax(name="EXIT", letter="EXIT", on="tensor", arg=None), lambda on, arg: ("EARLY_EXIT", on, None)),
    OldOption(Syntax(name="NT", letter="NT", on="tensor", arg=None), _with("CACHE", policy="stream")),
    OldOption(Syntax(name="FETCH", letter="F", on="tensor", arg=None), _with("CACHE", policy="prefetch")),
    OldOption(Syntax(name="FACTOR", letter="FA", on="axis", arg=None), _with("REWRITE", rule="factor")),
    OldOption(Syntax(name="DISTRIBUTE", letter="D", on="tensor", arg=None), _with("REWRITE", rule="distribute")),
    OldOption(Syntax(name="HOIST", letter="HO", on="tensor", arg=None), _with("REWRITE", rule="hoist")),
    OldOption(Syntax(name="SCATTER", letter="B", on="tensor", arg=None), _with("REWRITE", rule="scatter")),
    OldOption(Syntax(name="ACCUMULATE", letter="AC", on="tensor", arg=None), _with("REWRITE", rule="accumulate")),
    OldOption(
        Syntax(name="OPERANDS", letter="O", on="tensor", arg={"n": str}, short=(("|", "n"),), axis_fields=("n",)),
        lambda on, arg: ("REWRITE", on, {"rule": "operands", "along": dict(arg or {}).get("n", "")}),
    ),
    OldOption(Syntax(name="SPLITK", letter="SPLITK", on="axis"), _fields("SPLIT", amount="n")),
    OldOption(Syntax(name="SPLITSCAN", letter="KS", on="axis"), _fields("SPLIT", amount="n")),
    OldOption(
        Syntax(
            name="PRIVATE",
            letter="V",
            on="tensor",
            arg={"chunks": int, "copies": int},
            defaults={"chunks": 1, "copies": 1},
            short=(("", "chunks"), ("x", "copies")),
        ),
        _fields("SPLIT", chunks="n"),
    ),
    OldOption(Syntax(name="PERSIST", letter="PER", on="grid"), _fields("GRID", amount="persist")),
    OldOption(Syntax(name="WARPSPEC", letter="WS", on="grid"), _fields("GRID", amount="warpspec")),
    OldOption(Syntax(name="CLUSTER", letter="CL", on="grid"), _fields("GRID", amount="cluster")),
    OldOption(Syntax(name="LAUNCH", letter="REGS", on="grid"), _fields("GRID", amount="registers")),
    OldOption(Syntax(name="NOLOCAL", letter="NOLOCAL", on="grid", arg=None), _with("GRID", threads=1)),
)
ROLL = Syntax(name="ROLL", letter="RO", on="axis", arg=None)
OLD_OPTIONS: Mapping[str, OldOption] = {old.form.name: old for old in _TABLE}
OLD_FORMS: Mapping[str, Syntax] = {old.form.name: old.form for old in _TABLE} | {ROLL.name: ROLL}
"""How they were written: the short form reads them too."""


def renamed(options: Sequence[Any]) -> Sequence[Any]:
    """A decoded list of options, in JSON form or as `Opt`, with those of earlier versions replaced. OptError where one cannot be."""
    if not any(_name(o) in OLD_FORMS for o in options):
        return options
    out: list[Any] = []
    for o in _rolling(options):
        old = OLD_OPTIONS.get(_name(o))
        if old is None:
            out.append(o)
        elif len(o) > 3 or not isinstance(o[1], str):
            raise OptError(f'expected ["{o[0]}", "on", argument], got {o!r}')
        else:
            out.append(old.now(o[1], o[2] if len(o) == 3 else None))
    return out


def _rolling(options: Sequence[Any]) -> Sequence[Any]:
    """The list with ROLL as a field of the HALO that made the blocks which it names. OptError where none did."""
    rolls = [o for o in options if _name(o) == ROLL.name]
    if not rolls:
        return options
    out = [list(o) if _name(o) else getattr(o, "json", o) for o in options if _name(o) != ROLL.name]
    for _, blocks, *_ in rolls:
        axis, _, number = str(blocks).rpartition(".h")
        made = [i for i, o in enumerate(out) if _name(o) == "HALO" and o[1] == axis]
        at = int(number or 1) if number.isdecimal() or not number else 0
        if not 1 <= at <= len(made):
            raise OptError(f"ROLL({blocks}): it is a field of HALO now, HALO(axis, n, roll=1), and no HALO makes these blocks")
        o = out[made[at - 1]]
        out[made[at - 1]] = ["HALO", axis, {**(o[2] if isinstance(o[2], dict) else {"n": o[2]}), "roll": 1}]
    return out


def _name(option: Any) -> str:
    """The name of an option in JSON form that is long enough to have been one; '' of others."""
    plain = isinstance(option, (list, tuple)) and len(option) >= 2 and isinstance(option[0], str)
    return str(option[0]) if plain else ""
