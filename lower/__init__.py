"""Scheduled kernels become Programs; the interpreter runs Programs."""

from ..program.program import Mem, Param, Program, Signature
from .lowering import lower

__all__ = ["Mem", "Param", "Program", "Signature", "lower"]
