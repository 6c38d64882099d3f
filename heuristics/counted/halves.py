"""Instructions of a Program of which a processor's compiler makes one of two."""

from __future__ import annotations

from collections.abc import Mapping

from ...program.program import Instr, Val


def share_of_one(made: Mapping[Val, Instr], s: Instr, masks: bool) -> float:
    """How much of an instruction one of a Program's is: half where it is one of two, nothing where others do what it says. `made`: the
    instruction that makes a value; `masks`: truths of vectors have registers of their own."""
    if _half(made, s):
        return 0.5
    return 0.0 if not masks and _none(made, s) else 1.0


def _half(made: Mapping[Val, Instr], s: Instr) -> bool:
    """Whether an element is compared with itself, where two such tests are one; or a comparison is there already for the selection of
    the larger or smaller, which is one instruction (`lower/emit/numbers_only.py`)."""
    if s.op in ("eq", "ne"):
        return s.args[0] is s.args[1]
    if s.op != "select" or not s.args[1].dtype.is_float:
        return False
    test = made.get(s.args[0])
    return test is not None and test.op == "lt" and set(test.args) == set(s.args[1:])


def _none(made: Mapping[Val, Instr], s: Instr) -> bool:
    """Whether two tests of an element against itself are joined, which is one comparison of the two; or a truth becomes all ones or
    zeros, which it is already in a vector."""
    if s.op in ("or", "and") and s.result.dtype.kind == "b":
        return all(a in made and made[a].op in ("eq", "ne") and _half(made, made[a]) for a in s.args)
    if s.op != "select" or not s.args[1].dtype.is_int:
        return False
    return [_constant(made, a) for a in s.args[1:]] == [-1, 0]


def _constant(made: Mapping[Val, Instr], v: Val) -> object:
    s = made.get(v)
    if s is not None and s.op == "splat":
        s = made.get(s.args[0])
    return s.attr if s is not None and s.op == "const" else None
