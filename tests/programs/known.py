"""Faults that are known and not mended yet: programs that meet one are counted apart, and do not hide new faults. A row goes with its
fault."""

from __future__ import annotations

from collections.abc import Callable

from .noisy import EPS
from .program import Program

Meets = Callable[[Program, str], bool]


def narrows(p: Program) -> bool:
    """Whether a conversion that somebody wrote may round."""
    return any(s.op == "through" or (s.op == "cast" and dict(s.params)["to"] in EPS) for s in p.steps)


def has(*ops: str) -> Meets:
    return lambda p, message: any(s.op in ops for s in p.steps)


def extremes(p: Program, message: str) -> bool:
    return p.options.get("way") == "grad" and has("max", "min", "max_pool", "maximum", "minimum")(p, message)


KNOWN: dict[str, Meets] = {
    "a conversion that is written does not round": lambda p, message: narrows(p),
    "a number beside a half is compared unrounded": lambda p, message: any(s.op in ("eq_k", "lt_k") for s in p.steps),
    "remainders and quotients of numbers": lambda p, message: has("mod_k", "floordiv_k")(p, message) or "cast one of them" in message,
    "a gradient scatters outside": lambda p, message: "leaves out" in message,
    "a 16-bit statistic that is stored": lambda p, message: message.startswith("KeyError"),
    "an extreme is compared with what is computed again": extremes,
    "sizes that are symbols": lambda p, message: "SymbolicSize" in message,
}  # fmt: skip


def known(program: Program, message: str) -> str:
    """The known fault that a failure is, or ''."""
    return next((name for name, meets in KNOWN.items() if meets(program, message)), "")
