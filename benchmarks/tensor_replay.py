"""A case's kernels, compiled and bound to memory, run again and again by `plan.CallReplay`: what a captured function is
when all it costs is its kernels. Intermediate results share memory where they are not needed at once."""

from __future__ import annotations

from typing import Any

from tilewright.ir.kernel import Kernel
from tilewright.plan import CallReplay, best, canonical_of, empty
from tilewright.tensor.calls import CallList, KernelCall
from tilewright.tensor.node import TensorNode


def programs(made: CallList, threads: int, cache: str) -> dict[str, Any]:
    """By canonical hash, each distinct kernel compiled with the cache's schedule or the quick seed."""
    found: dict[str, Any] = {}
    for kernel in kernels_of(made):
        key = canonical_of(kernel).identity
        if key not in found:
            found[key] = best(kernel, threads=threads, cache=cache, seed="quick")
    return found


def kernels_of(made: CallList) -> list[Kernel]:
    """The kernel of each call."""
    return [c.kernel for c in made.calls if isinstance(c, KernelCall)]


def bind(made: CallList, leaves: list[TensorNode], progs: dict[str, Any]) -> tuple[CallReplay, list[Any]]:
    """The replay, and the array of each output. Raises TypeError where a call is NumPy's."""
    places: list[Any] = [n.data.array if n.data is not None else None for n in leaves] + [None] * (len(made.nodes) - len(leaves))
    last = {p: i for i, c in enumerate(made.calls) for p in (*c.inputs, *c.outputs)}
    free: list[Any] = []
    bound = []
    for i, call in enumerate(made.calls):
        if not isinstance(call, KernelCall):
            raise TypeError(f"call {i} is NumPy's ({call.call}): it cannot be replayed")
        for p in call.outputs:
            places[p] = _array(made.nodes[p], free if p not in made.outs else [])
        arrays = [places[p].reshape(b.shape) for p, b in zip((*call.inputs, *call.outputs), call.kernel.buffers)]
        bound.append(progs[canonical_of(call.kernel).identity].bound(*arrays))
        free += [places[p] for p in dict.fromkeys((*call.inputs, *call.outputs)) if p >= made.leaves and p not in made.outs and last[p] == i]
    return CallReplay(bound), [places[p] for p in made.outs]


def _array(node: TensorNode, free: list[Any]) -> Any:
    """An array for a node, out of memory that is free where one of the size is."""
    for i, a in enumerate(free):
        if a.nbytes == node.size * node.dtype.size and a.dtype == node.dtype.np:
            return free.pop(i).reshape(node.shape)
    return empty(node.shape, node.dtype.np)
