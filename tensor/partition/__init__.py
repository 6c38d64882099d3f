"""Partition: which nodes get memory, and which are computed in one kernel. docs/tensor.md's rules, each named where it decides."""

from .kernel_groups import Group, Parted, partition
from .split_dimensions import apart
from .store_rules import HOST, IN_STEPS, Rule

__all__ = ["HOST", "IN_STEPS", "Group", "Parted", "Rule", "apart", "partition"]
