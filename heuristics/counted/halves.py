"""Instructions of a Program of which a processor's compiler makes one of two."""

from __future__ import annotations

from collections.abc import Mapping

from ...program.program import Instr, Val


def half_of_one(made: Mapping[Val, Instr], s: Instr) -> bool:
    """Whether an element is compared with itself, where two such tests are one; or a comparison is there already for the selection of
    the larger or smaller, which is one instruction (`lower/emit/numbers_only.py`). `made`: the instruction that makes a value."""
    if s.op in ("eq", "ne"):
        return s.args[0] is s.args[1]
    if s.op != "select" or not s.args[1].dtype.is_float:
        return False
    test = made.get(s.args[0])
    return test is not None and test.op == "lt" and set(test.args) == set(s.args[1:])
