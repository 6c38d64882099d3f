"""What a search makes small: a time, an energy, an amount of memory, or two of them, which have a front and no single winner; or an
objective of somebody's own."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from ..files.plugins import entry_points, imported, is_path
from ..ir.errors import UsageError

TIME = "time"
OBJECTIVES = {
    TIME: "the time of a call",
    "energy": "the energy of a call, in joules: all that the package or the GPU takes meanwhile",
    "dynamic-energy": "the same without what the machine takes at rest",
    "scratch": "bytes of memory that a call takes beside its arguments; of schedules that take as much, the fastest",
}
"""Every objective that Tilewright brings, and what it means."""
ENERGIES = ("energy", "dynamic-energy")
FRONTS = tuple(f"{a},{b}" for i, a in enumerate(OBJECTIVES) for b in [*OBJECTIVES][i + 1 :] if not {a, b} <= set(ENERGIES))
"""Pairs of objectives, as keys write them."""
GROUP = "tilewright.objectives"
"""Entry points of packages that bring objectives."""


class Joules(Protocol):
    """The energy of a call."""

    @property
    def joules(self) -> float: ...


class Figures(Protocol):
    """What an objective may read of a measurement (`measure.Measurement`): seconds of a call, the least and the median; seconds of the compiler;
    bytes of memory beside the arguments, None where nobody knows; the energy of a call, where that was asked for."""

    @property
    def t_min(self) -> float | None: ...
    @property
    def t_med(self) -> float | None: ...
    @property
    def build_s(self) -> float: ...
    @property
    def scratch(self) -> int | None: ...
    @property
    def energy(self) -> Joules | None: ...


class Objective(ABC):
    """An objective of your own: a figure of what was measured, which searches make small. Of schedules whose figures are within `close` of the
    least, the fastest wins."""

    name: ClassVar[str]
    """Part of the cache's key: lower-case letters, digits and dashes."""
    about: ClassVar[str] = ""
    """What is made small, in a few words."""
    unit: ClassVar[str] = ""
    """What stands behind a figure, such as `B`."""
    reads_energy: ClassVar[bool] = False
    """Whether `value` reads joules, so that they must be measured."""
    close: ClassVar[float] = 1.02
    """Two figures within this ratio are equal. 1 where they are no matter of chance."""
    per_second: ClassVar[float] = 1.0
    """About the figure of a schedule that takes one second. Strategies are told figures over this, as if they were seconds."""

    @abstractmethod
    def value(self, m: Figures) -> float:
        """The figure of a right measurement, at least 0. The same measurement must give the same figure."""

    def figure(self, m: Figures) -> float:
        """`value`, or infinity, with a warning, where it raises or gives what is no figure."""
        try:
            said = float(self.value(m))
        except Exception as e:  # somebody else's code
            warnings.warn(f"objective {self.name!r} has no figure for a schedule: {type(e).__name__}: {e}", RuntimeWarning, stacklevel=2)
            return math.inf
        if math.isnan(said) or said < 0:
            warnings.warn(f"objective {self.name!r} gave {said}: a figure is at least 0", RuntimeWarning, stacklevel=2)
            return math.inf
        return said


_registered: dict[str, Objective] = {}
_paths: dict[str, str] = {}
"""The import path of what is known by that alone."""


def register_objective(objective: Objective) -> None:
    """Make an objective available under its name; one of that name is replaced. Raises UsageError where it is none, or its name is taken or
    cannot stand in a key."""
    name = getattr(objective, "name", None)
    if not isinstance(objective, Objective):
        raise UsageError(f"{objective!r} is no objective: derive a class from tilewright.search.Objective")
    if not isinstance(name, str) or not name.replace("-", "").isalnum() or name != name.lower():
        raise UsageError(f"an objective's name has lower-case letters, digits and dashes: not {name!r}")
    if name in OBJECTIVES:
        raise UsageError(f"{name!r} is an objective of Tilewright's own: give yours another name")
    _registered[name] = objective


def own(name: str) -> Objective | None:
    """The objective of somebody's own that has this name; None where Tilewright brings it, or nobody does. Raises UsageError where it cannot be
    imported."""
    if name in OBJECTIVES or "," in name:
        return None
    if name not in _registered and name in entry_points(GROUP):
        _import(name, entry_points(GROUP)[name])
    return _registered.get(name)


def _import(said: str, path: str) -> Objective:
    """Register what an import path names: an objective, or a class of one. Raises UsageError."""
    try:
        found: Any = imported(path)
        made = found() if isinstance(found, type) else found
    except Exception as e:  # somebody else's code
        raise UsageError(f"objective {said!r} is declared as {path} but cannot be made: {type(e).__name__}: {e}") from e
    register_objective(made)
    if path != said and made.name != said:
        raise UsageError(f"objective {said!r} is declared as {path}, which is called {made.name!r}: give both one name")
    if path == said:
        _paths[made.name] = path
    return _registered[made.name]


def objective(asked: str | Sequence[str] | None) -> str:
    """The one text for what is asked for: a name, two in the order of OBJECTIVES with a comma, or an import path of somebody's own. Raises
    UsageError."""
    if isinstance(asked, str) and is_path(asked.strip()):
        return _import(asked.strip(), asked.strip()).name
    words = [] if asked is None else asked.split(",") if isinstance(asked, str) else list(asked)
    names = [str(w).strip().lower() for w in words] or [TIME]
    there = list(dict.fromkeys([*OBJECTIVES, *_registered, *entry_points(GROUP)]))
    for name in names:
        if name not in there:
            from difflib import get_close_matches

            near = get_close_matches(name, there, 1)
            raise UsageError(
                f"no objective is called {name!r}{f'; did you mean {near[0]}?' if near else ''} (there are {', '.join(there)}, and "
                "module:Class or file.py:Class)"
            )
    if len(names) == 1:
        return names[0]  # an entry point is imported by the search that needs it (`own`)
    text = ",".join(n for n in OBJECTIVES if n in names)
    if len(names) > 2 or len(names) != len(set(names)) or ("," in text and text not in FRONTS) or len(text.split(",")) != len(names):
        raise UsageError(f"an objective is one of {', '.join(there)}, or two such as time,energy; not {','.join(names)}")
    return text


def typed(text: str) -> str:
    """What a user types for an objective, in any process."""
    return _paths.get(text, text)


def fronts_with(name: str) -> tuple[str, ...]:
    """The pairs that `name` is one of."""
    return tuple(f for f in FRONTS if name in f.split(","))
