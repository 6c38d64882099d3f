"""The counted model: seconds of a schedule from the Program that it is lowered to."""

from .counted_terms import count, counted, of_program

__all__ = ["count", "counted", "of_program"]
