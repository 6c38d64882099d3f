"""OWN: a scatter whose work items own blocks of the output ("owner computes").

Writes of a scatter can meet, so the axis they come along stays serial. Under OWN every work item goes through all of
that axis, and keeps the writes that fall into its own rows, which it has cleared itself: items need no locks, rows
are added up in the same order as without, and a block that fits the second cache travels to memory once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...ir import index as ix
from ...ir.body import Store
from ...ir.errors import OptError
from ...ir.kernel import Kernel
from ...ir.node import Node, axes_of
from ...ir.node import axis as make_axis
from ...targets import Target
from ..neighbourhood import Neighbourhood
from ..opt import Opt, Opts, opt
from ..registry import Doc, Golden, Option, Rewriting, always
from ..schedule import Scheduled

BLOCKS = (64, 128, 256, 512, 1024, 4096)


def ownable(kernel: Kernel) -> tuple[Store, int, int] | None:
    """The scatter of a kernel that does nothing else, the dimension that it indexes by data, and that one's size;
    None for other kernels."""
    if (
        len(kernel.stores) != 1
        or kernel.stores[0].combine is None
        or any(not isinstance(getattr(v, "expr", None), Node) for v in kernel.body)
    ):
        return None
    store = kernel.stores[0]
    found = [d for d, i in enumerate(store.indices) if i.op != "axis"]
    if store.mask is not None or len(found) != 1 or not all(isinstance(d, int) for d in store.buffer.shape):
        return None
    by = axes_of(store.indices[found[0]])
    if not by or any(i in by for i in store.indices):  # one row for all points, or another one for each place in a row
        return None
    size = store.buffer.shape[found[0]]
    assert isinstance(size, int)
    return store, found[0], size


def owned(kernel: Kernel, o: Opt, target: Target) -> tuple[Kernel, str]:
    """The kernel with an axis of blocks of `o.amount` rows outside its scatter, and that axis' name."""
    found = ownable(kernel)
    if found is None or found[0].buffer.name != o.on:
        raise OptError(
            f"{o}: OWN takes the output of a kernel that does nothing but scatter into it, by one store, along one dimension of known size"
        )
    if target.kind == "gpu":
        raise OptError(f"{o}: OWN is for processors; {target.name} has too many work items to let each read every index")
    store, d, size = found
    if not o.amount < size:
        raise OptError(f"{o}: a block must be smaller than the {size} rows of {o.on}")
    name = f"{next(a for a in store.axes if a in axes_of(store.indices[d])).arg.name}.own"  # a loop of the axis that it repeats
    axis = make_axis(name, -(-size // o.amount), name)
    # one comparison, false for nearly all: two would each be a branch that goes either way
    mine = ix.compare("eq", ix.floordiv(store.indices[d], o.amount), axis)
    again = replace(store, axes=(axis, *store.axes), mask=mine, own=(axis, d, o.amount))
    return replace(kernel, stores=(again,)), name


def rewrite(r: Rewriting) -> Scheduled:
    """The kernel with owners, its blocks on the grid."""
    o = r.only("the output has owners already")
    inner, blocks = owned(r.kernel, o, r.target)
    a = r.apply(inner, (opt("PARALLEL", blocks), *r.others), r.target)
    return r.schedule((a,), a.effects)


def propose(near: Neighbourhood) -> Iterator[Opts]:
    """Blocks of the output of a lone scatter."""
    found = ownable(near.kernel) if near.cpu and "OWN" not in near.ops else None
    if found is not None:
        yield from ((opt("OWN", found[0].buffer.name, n),) for n in BLOCKS if n < found[2])


OWN = Option(
    name="OWN",
    letter="OWN",
    on="tensor",
    kind="grid",
    stored=always,
    legend="blocks of a scatter's output",
    docs=(
        Doc(
            "OWN(output, n)",
            "Let work items own blocks of n rows of a scatter's output ([below](#scatters-with-owners)).",
        ),
    ),
    golden={"own": Golden("embedding_grad", {"v": 40, "n": 8, "d": 32}, [["OWN", "dtable", 16], ["UPCAST", "d", 32]])},
    rewrite=rewrite,
    propose=propose,
)
