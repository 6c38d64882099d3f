"""An interpreter that lets a planted fault of thread groups pass is broken."""

from __future__ import annotations

import re

import pytest
from group_mutants import MUTANTS, checked, padded, summed, tiled


@pytest.mark.parametrize("make", [tiled, padded, summed])
def test_the_right_programs_pass(make):
    assert checked(make()) == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_is_found(name):
    make, says = MUTANTS[name]
    found = checked(make())
    assert re.search(says, found), f"{name}: the interpreter says {found!r}"
