"""Partition: which nodes get memory, and which are computed in one kernel. docs/tensor.md's rules, each named where it decides."""

from .cost import Rule
from .groups import Group, Parted, partition

__all__ = ["Group", "Parted", "Rule", "partition"]
