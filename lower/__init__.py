"""Scheduled kernels become Programs: emission, then named passes."""

from ..program.program import Mem, Param, Program, Signature
from .pipeline import lower

__all__ = ["Mem", "Param", "Program", "Signature", "lower"]
