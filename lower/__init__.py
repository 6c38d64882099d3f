"""Scheduled kernels become Programs; the interpreter runs Programs."""

from .lowering import lower
from .program import Mem, Param, Program, Signature

__all__ = ["Mem", "Param", "Program", "Signature", "lower"]
