"""Options of earlier versions, and the options that took their place.

Bundles, rows of the cache, manifests and recorded results hold schedules as JSON, where `opt.parse` reads old names by this table. In short
form they are refused with the new name. What is written has new names only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..ir.errors import OptError
from .syntax import Scalar


@dataclass(frozen=True)
class OldOption:
    """What an option is now: its name, fields that it always has, and the new names of the old fields; `amount` is a bare number."""

    op: str
    fields: Mapping[str, Scalar] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)

    def now(self, on: str, arg: Any) -> list[Any]:
        """The option in JSON form, of what the old one was on and its argument."""
        given = dict(arg) if isinstance(arg, Mapping) else {} if arg is None else {"amount": arg}
        fields = {**self.fields, **{self.names.get(k, k): v for k, v in given.items()}}
        return [self.op, on, fields] if fields else [self.op, on]

    @property
    def instead(self) -> str:
        """How it is written now."""
        return f"{self.op}({', '.join(['name', *(f'{k}={v}' for k, v in self.fields.items()), *(f'{k}=…' for k in self.names.values())])})"


def _rule(name: str, **names: str) -> OldOption:
    return OldOption("REWRITE", {"rule": name}, names)


OLD_OPTIONS: Mapping[str, OldOption] = {
    "EXIT": OldOption("EARLY_EXIT"),
    "NT": OldOption("CACHE", {"policy": "stream"}),
    "FETCH": OldOption("CACHE", {"policy": "prefetch"}),
    **{rule.upper(): _rule(rule) for rule in ("factor", "distribute", "hoist", "scatter", "accumulate")},
    "OPERANDS": _rule("operands", n="along"),
    "SPLITK": OldOption("SPLIT", names={"amount": "n"}),
    "SPLITSCAN": OldOption("SPLIT", names={"amount": "n"}),
    "PRIVATE": OldOption("SPLIT", names={"chunks": "n"}),
    **{name: OldOption("GRID", names={"amount": name.lower()}) for name in ("PERSIST", "WARPSPEC", "CLUSTER")},
    "LAUNCH": OldOption("GRID", names={"amount": "registers"}),
    "NOLOCAL": OldOption("GRID", {"threads": 1}),
    "ROLL": OldOption("HALO", {"roll": 1}, {"amount": "n"}),
}
"""By their old names. (ROLL named blocks that a HALO before it made: `renamed` finds that one.)"""


def renamed(options: Sequence[Any]) -> Sequence[Any]:
    """A decoded list of options, in JSON form or as `Opt`, with those of earlier versions replaced. OptError where one cannot be."""
    if not any(_name(o) in OLD_OPTIONS for o in options):
        return options
    out: list[Any] = []
    for o in options:
        old = OLD_OPTIONS.get(_name(o))
        if old is None:
            out.append(list(o) if _name(o) else getattr(o, "json", o))
        elif len(o) > 3 or not isinstance(o[1], str):
            raise OptError(f'expected ["{o[0]}", "on", argument], got {o!r}')
        elif o[0] == "ROLL":
            _roll(out, o[1])
        else:
            out.append(old.now(o[1], o[2] if len(o) == 3 else None))
    return out


def _roll(options: list[Any], blocks: str) -> None:
    """Let the HALO that made the blocks roll them. OptError where none did."""
    axis, _, number = blocks.rpartition(".h")
    made = [o for o in options if _name(o) == "HALO" and o[1] == axis]
    at = int(number or 1) if number.isdecimal() or not number else 0
    if not 1 <= at <= len(made):
        raise OptError(f"ROLL({blocks}): it is a field of HALO now, HALO(axis, n, roll=1), and no HALO makes these blocks")
    halo = made[at - 1]
    halo[2] = {**(halo[2] if isinstance(halo[2], dict) else {"n": halo[2]}), "roll": 1}


def _name(option: Any) -> str:
    """The name of an option in JSON form that is long enough to have been one; '' of others."""
    plain = isinstance(option, (list, tuple)) and len(option) >= 2 and isinstance(option[0], str)
    return str(option[0]) if plain else ""
