"""Runs Programs on NumPy arrays: the meaning of a Program, with every access checked."""

from .interpreter import Interpreter, run

__all__ = ["Interpreter", "run"]
