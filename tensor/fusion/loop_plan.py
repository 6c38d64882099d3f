"""What the partition decided about the loops and the memory of its kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...ir.dtypes import DType
from ..graph.node import TensorNode
from ..partition.splits import Splits


@dataclass(frozen=True)
class LoopPlan:
    """`loops`: by id of a stored node, a node that it is computed from and the order of that node's dimensions in which
    loops run. `kept`: by id, types of stored nodes in memory that are not the nodes' own. `splits`: by id of a computed
    node, dimensions that loops go through in parts."""

    loops: Mapping[int, tuple[TensorNode, tuple[int, ...]]] = field(default_factory=dict)
    kept: Mapping[int, DType] = field(default_factory=dict)
    splits: Mapping[int, Splits] = field(default_factory=dict)
