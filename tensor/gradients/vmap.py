"""vmap: a function of single elements on whole batches. The function is run once on placeholders, and every node that
depends on them is made anew with an axis in front, by a rule a primitive. No loop, and no kernel an element."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any

from ...ir.errors import UsageError
from ..frontends.habits import answered
from ..given_arrays import lineage
from ..graph import index_maps as maps
from ..graph import primitives as P
from ..graph.nodes import Mark, TensorNode, differentiated, make, walk
from ..graph.source_lines import at as line
from ..graph.source_lines import user_line
from ..running.current_capture import collecting, current, happen, thread
from ..running.realise import realise
from ..tensor import Tensor, as_tensor
from ..trees import flatten, tree_map, unflatten
from ..views import spread
from .batching import batched, repeated
from .checkpoint import rebuild

Written = dict[int, tuple["weakref.ref[Any]", TensorNode]]


@answered
def vmap(f: Callable[..., Any], in_axes: int | Sequence[int | None] | None = 0, out_axes: int = 0) -> Callable[..., Any]:
    """A function of batches from one of single elements. `in_axes`: for each argument (or all) the dimension of its tensors
    that counts elements, None where all elements share it; `out_axes`: where that dimension is in the results. Arguments
    and results are trees. Arguments by keyword have their batch in front; a result that is no tensor is the same for all. The values of a
    batch cannot be read inside of `f`. Raises UsageError where sizes differ."""
    axes_of = (in_axes,) if in_axes is None or isinstance(in_axes, int) else in_axes
    if (
        not isinstance(axes_of, (tuple, list))
        or not all(at is None or isinstance(at, int) for at in axes_of)
        or not isinstance(out_axes, int)
    ):
        raise UsageError(
            f"vmap: in_axes {in_axes!r} and out_axes {out_axes!r}: give a dimension for each argument (None: shared), and one for results"
        )

    @wraps(f, updated=())
    def mapped(*args: Any, **keywords: Any) -> Any:
        axes: list[int | None] = [in_axes] * len(args) if in_axes is None or isinstance(in_axes, int) else list(in_axes)
        if len(axes) != len(args):
            raise UsageError(f"vmap: {len(axes)} in_axes for {len(args)} arguments{line(user_line())}")
        table: dict[int, TensorNode] = {}
        slots: list[TensorNode] = []
        given = []
        sizes: set[int] = set()
        for arg, at in zip((*args, keywords), (*axes, 0)):
            leaves, structure = flatten(arg if at is None else tree_map(as_tensor, arg))
            if at is not None:
                leaves = [_placeholder(t, at, table, slots, sizes) for t in leaves]
            given.append(unflatten(structure, leaves))
        if len(sizes) != 1:
            raise UsageError(
                f"vmap: the arguments' batches have sizes {sorted(sizes)}{line(user_line())}" if sizes else "vmap: no argument has a batch"
            )
        (size,) = sizes
        with collecting() as effects, _called(table) as written:
            outs, shape = flatten(tree_map(as_tensor, f(*given[:-1], **given[-1])))
        found = _given_back(written, outs, table)
        if found:
            raise UsageError(
                f"the function under vmap writes to a tensor from outside ({found[0].dtype}{list(found[0].shape)}) what each element of the "
                f"batch has of its own: return the values, and assign them outside{line(user_line())}"
            )
        order = list(walk([*(t.node for t in outs), *effects[-1:]], lambda n: id(n) in table or not n.src, differentiated))
        inside = set(table)
        for n in order:
            if any(id(s) in inside for s in n.src):
                inside.add(id(n))
        rebuild(order, inside, table, lambda n, src, arg: batched(n, src, arg, [id(s) in inside for s in n.src]))
        happen([table.get(id(e), e) for e in effects[-1:]], realise)
        return unflatten(shape, [_moved(t, table.get(id(t.node)), size, out_axes) for t in outs])

    return mapped


@contextmanager
def _called(table: Mapping[int, TensorNode]) -> Iterator[Written]:
    before, thread.written = thread.written, {}
    thread.batches += 1
    thread.transformed += 1
    try:
        yield thread.written
    except BaseException:
        _given_back(thread.written, (), table)
        raise
    finally:
        thread.batches -= 1
        thread.transformed -= 1
        thread.written = before


def _given_back(written: Written, outs: Sequence[Tensor], table: Mapping[int, TensorNode]) -> list[Tensor]:
    """Tensors from outside that were given values which each element of the batch has of its own: they have their old ones again. (A tensor
    of the function's own is gone after the call, unless it is returned, or a part of it.)"""
    own = set()
    for t in outs:
        while id(t) not in own:
            own.add(id(t))
            t = t if t.links is None or t.links.base is None else t.links.base

    def broken() -> list[tuple[Tensor, TensorNode]]:
        alive = [(t, old) for r, old in written.values() if (t := r()) is not None and id(t) not in own]
        return [(t, old) for t, old in alive if any(id(n) in table for n in walk([t.node]))]

    if not broken():
        return []
    with _weakly_held(written):
        gc.collect()
        found = broken()
    for t, old in found:
        t.node = old
        if t.links is not None:
            spread(t)
    return [t for t, _ in found]


@contextmanager
def _weakly_held(written: Written) -> Iterator[None]:
    """A capture, which holds what was assigned to and read, does not hold what was written here: what was the function's own goes."""
    capture = current()
    if capture is None:
        yield
        return
    noted = {k: capture.assigned.pop(k)[1] for k in written if k in capture.assigned}
    read = {k: weakref.ref(t) for k, t in capture.read.items() if id(lineage(t)[1]) in written}
    for k in read:
        capture.read.pop(k)
    yield
    capture.assigned.update({k: (t, old) for k, old in noted.items() if (t := written[k][0]()) is not None})
    capture.read.update({k: t for k, r in read.items() if (t := r()) is not None})


def _placeholder(t: Tensor, at: int, table: dict[int, TensorNode], slots: list[TensorNode], sizes: set[int]) -> Tensor:
    rank = len(t.shape)
    if not -rank <= at < rank:
        raise UsageError(f"vmap: axis {at} of an argument of shape {list(t.shape)}")
    at %= rank
    sizes.add(t.shape[at])
    order = (at, *(d for d in range(rank) if d != at))
    shape = tuple(t.shape[d] for d in order[1:])
    slots.append(make("slot", (), Mark("vmap"), shape, t.dtype))
    table[id(slots[-1])] = P.view(t.node, maps.permute(t.shape, order))
    out: Tensor = Tensor.of(slots[-1], t.device)
    return out


def _moved(t: Tensor, found: TensorNode | None, size: int, to: int) -> Tensor:
    """A result with its batch at dimension `to`."""
    n = repeated(t.node, size) if found is None else found
    rank = len(n.shape)
    if not -rank <= to < rank:
        raise UsageError(f"vmap: out_axes {to} of a result of shape {list(n.shape)}")
    at = to % rank
    order = [*range(1, at + 1), 0, *range(at + 1, rank)]
    out: Tensor = Tensor.of(P.view(n, maps.permute(n.shape, order)), t.device)
    return out
