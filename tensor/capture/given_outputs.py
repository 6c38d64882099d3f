"""`out=` of captured functions: results in arrays that the caller has."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...ir.errors import UsageError
from ...plan.array_arguments import address
from ..graph.source_lines import at, user_line
from ..leaves import array_class
from ..ops.complex_numbers import as_reals
from ..tensor import Tensor
from ..trees import Structure, flatten, unflatten
from ..views import overlap

if TYPE_CHECKING:
    import numpy as np

    from ..running.buffers import BufferSpec

    Array = np.ndarray[Any, Any]


def given_arrays(name: str, out: Any) -> list[Array]:
    """`out` as a list of arrays: one, or a tree of them. Raises UsageError for what is no array that may be written."""
    arrays = [out] if type(out) is array_class() else flatten(out)[0]
    for a in arrays:
        if type(a) is not array_class() or not a.flags.writeable:
            what = "an array that is read-only" if isinstance(a, array_class()) else f"a {type(a).__name__}"
            raise UsageError(f"{name}(out=...): {what}; give NumPy arrays that may be written{at(user_line())}")
        if a.dtype.kind == "c" and not a.flags.c_contiguous:
            raise UsageError(f"{name}(out=...): a complex array with gaps; give one that is contiguous{at(user_line())}")
    for i, a in enumerate(arrays):
        if any(overlap(a, b) for b in arrays[:i]):
            raise UsageError(f"{name}(out=...): two arrays that share elements, which would keep one result only{at(user_line())}")
    return [as_reals(a) if a.dtype.kind == "c" else a for a in arrays]


def check_fits(name: str, arrays: Sequence[Array], results: Sequence[Any]) -> None:
    """Raise UsageError where there is not an array of the shape and type of each result (a tensor, or a spec)."""
    if len(arrays) != len(results):
        raise UsageError(f"{name}(out=...): {len(arrays)} arrays for {len(results)} results{at(user_line())}")
    for a, r in zip(arrays, results, strict=True):
        if a.shape != r.shape or a.dtype != r.dtype.np:
            raise UsageError(f"{name}(out=...): an array {a.dtype}{list(a.shape)} for a result {r.dtype}{list(r.shape)}{at(user_line())}")


def copied_into(name: str, result: Any, arrays: Sequence[Array]) -> Any:
    """A result, copied to arrays; the same tree of tensors on them. Raises UsageError."""
    leaves, structure = flatten(result)
    if not all(isinstance(x, Tensor) for x in leaves):
        raise UsageError(f"{name}(out=...): a result is no tensor{at(user_line())}")
    check_fits(name, arrays, leaves)
    found = [x.numpy() for x in leaves]
    import numpy as np

    if any(np.may_share_memory(a, x) for i, a in enumerate(arrays) for j, x in enumerate(found) if i != j):
        found = [x.copy() for x in found]
    for a, x in zip(arrays, found, strict=True):
        a[...] = x
    return tensors_on(arrays, structure)


def tensors_on(arrays: Sequence[Array], structure: Structure) -> Any:
    """Tensors on the memory of arrays (a copy of one with gaps), in a structure."""
    return unflatten(structure, [Tensor.of_array(a) if a.flags.carray else Tensor(a) for a in arrays])


def places_for(arrays: Sequence[Array], specs: Sequence[BufferSpec], others: Sequence[Any]) -> list[int] | None:
    """Where kernels may write results, whose specs these are: the addresses of the arrays; None where one has gaps or lies in the memory of
    another one, or of `others`: buffers and arrays that kernels read."""
    spans: list[tuple[int, int]] = []
    for a, spec in zip(arrays, specs, strict=True):
        flags = a.flags
        if not flags.c_contiguous or not flags.aligned:
            return None
        first = address(a)
        spans.append((first, first + spec.nbytes))
    for b in others:
        first = address(b) if isinstance(b, array_class()) else b.address
        for lo, hi in spans:
            if lo < first + b.nbytes and first < hi:
                return None
    ordered = sorted(spans)
    if any(a[1] > b[0] for a, b in pairwise(ordered)):
        return None
    return [lo for lo, _ in spans]
