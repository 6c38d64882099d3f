"""Faults that are known and not mended yet: programs that meet one are counted apart, and do not hide new faults. A row goes with its
fault; `test_known_faults_are_still_there` fails for a row that nothing needs any more."""

from __future__ import annotations

from collections.abc import Callable

from .program import Program

Meets = Callable[[Program, str], bool]


def has(*ops: str) -> Meets:
    return lambda p, message: any(s.op in ops for s in p.steps)


KNOWN: dict[str, Meets] = {
}  # fmt: skip


def known(program: Program, message: str) -> str:
    """The known fault that a failure is, or ''."""
    return next((name for name, meets in KNOWN.items() if meets(program, message)), "")
