"""The rules by which a node gets memory: what `tune graph` prints at each boundary."""

from __future__ import annotations

from enum import StrEnum


class Rule(StrEnum):
    """Why a node is stored."""

    output = "an output of the graph"
    head = "a contraction, with the pointwise work behind it"
    scatter = "a scatter starts from its own memory"
    scan = "a scan, with the pointwise work behind it"
    host = "computed by NumPy"
    host_input = "read by NumPy"
    check = "says whether indices lie inside"
    operand = "a contraction reads each element many times: computing it again costs more than storing it"
    readers = "several kernels read it: computing it again costs more than a store and loads"
    statistic = "a reduction that several kernels read"
    rows = "a reduction that its reader does not have at shared leading axes"
    head_reader = "a reduction read by a contraction's kernel"
    computed = "read at places that are computed or padded"
    limit = "the kernel would have too many parameters or operations"
    steady = "compared with an extreme of itself: others would compute it with other bits"
    fold = "a chain of reductions over one axis, in tiles"
