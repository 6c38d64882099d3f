"""How an option is written: its name, what it may be put on, its argument, and its short form.

This is the part of an option's declaration that `Opt` itself is checked against, and that other folders need to read
or translate a list of options without knowing any by name. The rest of a declaration is `registry.Option`, which is a
`Syntax` as well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Scalar = int | str
Argument = type[int] | None | Mapping[str, type]
On = Literal["axis", "loop", "tensor", "any", "grid", "parameter"]
FLAG = "!"
"""The sign of a field whose value 1 need not be written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Syntax:
    """How one option is written.

    `on`: what it names, an axis (a family or a site), a loop, a tensor (a buffer or a value), any of axes and tensors, the grid, or a
    parameter of a user's source; `on_by`: a field whose values name something else, and what. `arg`: int for one amount, None for no argument, or the type of each field. `amount`: the field that a
    bare number stands for. `defaults`: the fields that may be left out.
    `letter` and `short`: how it is written in one dense line (`short_form`): the letter, the name, and the amount or
    each field after its sign. A field at its default is left out, unless its sign is empty; `FLAG` alone says 1. `loop_fields` and `axis_fields`: the fields that name loops and axes.
    `quoted`: other fields that may hold any text. `choices`: values of a field that a search tries."""

    name: str
    letter: str
    on: On
    arg: Argument = int
    amount: str = ""
    defaults: Mapping[str, Scalar] = field(default_factory=dict)
    short: tuple[tuple[str, str], ...] = ()
    loop_fields: tuple[str, ...] = ()
    axis_fields: tuple[str, ...] = ()
    on_by: tuple[str, Mapping[str, On]] | None = None
    quoted: tuple[str, ...] = ()
    choices: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)

    def names(self, fields: Mapping[str, object] | None) -> On:
        """What an option with these fields names."""
        if self.on_by is None:
            return self.on
        field_, kinds = self.on_by
        return kinds.get(str((fields or {}).get(field_)), self.on)

    @property
    def named_fields(self) -> tuple[str, ...]:
        """The fields whose values are names of the kernel: loops or axes."""
        return self.loop_fields + self.axis_fields


SET = Syntax(name="SET", letter="", on="parameter", arg={"to": str}, short=(("=", "to"),), quoted=("to",))
"""The value of a parameter of a user's source. Configurations of sources are lists of these; a kernel has no such option."""

SYNTAX: dict[str, Syntax] = {SET.name: SET}
"""Every form by name. `registry.register` adds the options of kernels, in the order in which `options/__init__.py` lists them."""
