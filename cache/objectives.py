"""What a search makes small. A time, an energy, an amount of memory, or two of them, which have a front and no single winner."""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.errors import UsageError

TIME = "time"
OBJECTIVES = {
    TIME: "the time of a call",
    "energy": "the energy of a call, in joules: all that the package or the GPU takes meanwhile",
    "dynamic-energy": "the same without what the machine takes at rest",
    "scratch": "bytes of memory that a call takes beside its arguments; of schedules that take as much, the fastest",
}
"""Every objective, and what it means."""
ENERGIES = ("energy", "dynamic-energy")
FRONTS = tuple(f"{a},{b}" for i, a in enumerate(OBJECTIVES) for b in [*OBJECTIVES][i + 1 :] if not {a, b} <= set(ENERGIES))
"""Pairs of objectives, as keys write them."""


def objective(asked: str | Sequence[str] | None) -> str:
    """The one text for what is asked for: a name, or two in the order of OBJECTIVES with a comma. Raises UsageError."""
    words = [] if asked is None else asked.split(",") if isinstance(asked, str) else list(asked)
    names = [str(w).strip().lower() for w in words] or [TIME]
    for name in names:
        if name not in OBJECTIVES:
            from difflib import get_close_matches

            near = get_close_matches(name, OBJECTIVES, 1)
            raise UsageError(
                f"no objective is called {name!r}{f'; did you mean {near[0]}?' if near else ''} (there are {', '.join(OBJECTIVES)})"
            )
    text = ",".join(n for n in OBJECTIVES if n in names)
    if len(names) > 2 or len(names) != len(set(names)) or ("," in text and text not in FRONTS):
        raise UsageError(f"an objective is one of {', '.join(OBJECTIVES)}, or two such as time,energy; not {','.join(names)}")
    return text


def fronts_with(name: str) -> tuple[str, ...]:
    """The pairs that `name` is one of."""
    return tuple(f for f in FRONTS if name in f.split(","))
