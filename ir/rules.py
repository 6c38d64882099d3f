"""Gives the operators of nodes their meaning, once, when the package is imported."""

from __future__ import annotations

from .node import install
from .operators import arith, cast, divide, integer, logical, unary
from .powers import power
from .text import show


class _Rules:
    """The operators of nodes, as `ir.operators` and `ir.powers` have them."""

    arith = staticmethod(arith)
    logical = staticmethod(logical)
    unary = staticmethod(unary)
    cast = staticmethod(cast)
    integer = staticmethod(integer)
    divide = staticmethod(divide)
    power = staticmethod(power)
    text = staticmethod(show)


OPERATORS = _Rules()
"""What nodes have been given."""
install(OPERATORS)
