"""The small kernel that most options' golden cases schedule."""

from __future__ import annotations

MATMUL = ("matmul", {"m": 8, "n": 32, "k": 16})
"""A kernel's name and its shape, the first arguments of `registry.Golden`."""
