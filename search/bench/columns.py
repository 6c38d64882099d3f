"""A configuration of a foreign tuner as a schedule: one option a parameter, whose amount is the value's place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...opts.defaults import numbered

if TYPE_CHECKING:
    from ...opts.opt import Opt
    from ..space import Schedule


def options(values: Mapping[str, Sequence[Any]]) -> dict[str, dict[Any, Opt]]:
    """The option of each value of each parameter; they mean nothing but the value's place."""
    return {k: {v: numbered(k, i + 1) for i, v in enumerate(vs)} for k, vs in values.items()}


def schedule(table: Mapping[str, Mapping[Any, Opt]], chosen: Mapping[str, Any]) -> Schedule:
    """The schedule that stands for a configuration; `table`: what `options` made."""
    return tuple(of[chosen[k]] for k, of in table.items())
