"""Start schedules of kernels with a tiny axis: which axes count, and that they stay in registers beside long lanes."""

from __future__ import annotations

from checks import check_floats, check_twin
from tilewright import named_kernels
from tilewright.heuristics import quick_starts, starts
from tilewright.heuristics.start import StartFacts
from tilewright.heuristics.start.register_tiles import TinyAxes, tiny_axes
from tilewright.heuristics.start.scatters import thread_copies
from tilewright.ir import KernelBuilder, exp, float32, int32, sqrt, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.ir.normal_form import normalise
from tilewright.opts import apply
from tilewright.targets import named

AVX2, GPU = named("avx2"), named("sm_90a")


def gravity(n: int, components: int = 3) -> Kernel:
    """Forces between all pairs, the components an axis."""
    kb = KernelBuilder("gravity")
    i, j, c = kb.axis("i", n), kb.axis("j", n), kb.axis("c", components)
    p = kb.input("p", (n, components), float32)
    square = const(0.1, float32)
    for k in range(components):
        square = square + (p[j, k] - p[i, k]) * (p[j, k] - p[i, k])
    f = kb.sum("f", (i, c), j, (p[j, c] - p[i, c]) / (square * sqrt(square)))
    kb.store("y", float32, (n, components), (i, c), f[i, c])
    return kb.build()


def test_axes_that_share_work() -> None:
    assert [a.arg.name for a in tiny_axes(gravity(64))] == ["c"]
    assert tiny_axes(gravity(64, 5)) == []
    assert [a.arg.name for a in tiny_axes(soft_counts(500, 8))] == ["c"]
    assert tiny_axes(soft_counts(500, 9)) == tiny_axes(soft_counts(64, 8)) == []
    assert tiny_axes(named_kernels.make("matmul", {"m": 3, "n": 8, "k": 8})) == []
    assert tiny_axes(named_kernels.make("add", {"m": 3, "n": 8})) == []


def test_first_start_schedules_have_them_in_registers() -> None:
    kernel = gravity(1024)
    for target in (AVX2, GPU):
        for found in (starts(kernel, target), quick_starts(kernel, target)):
            assert any(o.op == "UPCAST" and o.on == "c" and o.amount == 3 for o in found[0]), target.name


def soft_counts(n: int, clusters: int) -> Kernel:
    """What clusters have of points, and the sum of it, where each point is shared out by a softmax."""
    kb = KernelBuilder("soft_counts")
    c, (a, b), i, j = kb.axis("c", clusters), (kb.axis(f"c@{s}", clusters) for s in ("top", "all")), kb.axis("n", n), kb.axis("n@x", n)
    p, x, m = kb.axis("n@pre", n), kb.input("x", (n,), float32), kb.input("m", (clusters,), float32)
    top = kb.max("top", (p,), a, x[p] * m[a])
    total = kb.sum("total", (p,), b, exp(x[p] * m[b] - top[p]))
    many = kb.sum("many", (c,), i, exp(x[i] * m[c] - top[i]) / total[i])
    much = kb.sum("much", (c,), j, exp(x[j] * m[c] - top[j]) / total[j] * x[j])
    kb.store("y", float32, (clusters,), (c,), much[c] / many[c])
    return kb.build()


def test_lanes_go_along_what_a_few_share_out() -> None:
    """Long sums for each of a few clusters read what was computed of each point: lanes over points, all clusters beside them."""
    kernel = soft_counts(5000, 5)
    assert [a.arg.name for a in tiny_axes(kernel)] == ["c"]
    found = apply(normalise(kernel), starts(kernel, AVX2)[0], AVX2)
    sums = [n for n in found.nests if n.name in ("many", "much")]
    assert len(sums) == 2
    for n in sums:
        lane = found.lanes(n).lane
        assert lane is not None and lane.axis in n.reduce_axes and found.lanes(n).width == 8
    check_floats(soft_counts(500, 5), next(TinyAxes().guesses(StartFacts(soft_counts(500, 5), AVX2))), AVX2)


def test_every_guess_is_right() -> None:
    kernel = gravity(40)
    for opts in TinyAxes().guesses(StartFacts(kernel, AVX2, 2)):
        check_twin(kernel, opts, AVX2)
    check_floats(kernel, next(TinyAxes().guesses(StartFacts(kernel, AVX2))), AVX2)


def test_a_copy_for_each_thread_of_a_gpu() -> None:
    kb = KernelBuilder("histogram")
    i = kb.axis("i", 1 << 20)
    at = kb.input("at", (1 << 20,), int32, range=(0, 255))
    kb.store("y", int32, (256,), (i,), const(1, int32), indices=(at[i],), combine="add")
    kernel = kb.build()
    first = next(iter(thread_copies(kernel, GPU)))
    assert [o.op for o in first] == ["SPLIT", "LOCAL"]
    assert apply(kernel, first, GPU).phases[0].group == 32
    assert starts(kernel, GPU)[0][0].op == "SPLIT"
    table = named_kernels.make("embedding_grad")  # its rows are long enough to share
    assert not any(o.op == "SPLIT" for o in starts(table, GPU)[0])


def joined(sizes: tuple[int, ...], width: int, outputs: int = 1) -> Kernel:
    """Arrays one below the other; with two outputs, the second one holds the squares."""
    kb = KernelBuilder("joined")
    rows = sum(sizes)
    i, c = kb.axis("i", rows), kb.axis("c", width)
    found, at = const(0.0, float32), rows
    for k, size in reversed(list(enumerate(sizes))):
        at -= size
        part = kb.input(f"p{k}", (size, width), float32).masked((i >= at) & (i < at + size), i - at, c)
        found = part if k == len(sizes) - 1 else where(i < at + size, part, found)
    kb.store("y", float32, (rows, width), (i, c), found)
    if outputs == 2:
        kb.store("z", float32, (rows, width), (i, c), found * found)
    return normalise(kb.build())


def test_arrays_are_joined_one_place_at_a_time() -> None:
    """Copies along the axis that arrays are joined along would read all of them under masks."""
    for width, outputs in ((4, 1), (4, 2), (64, 2), (7, 2)):
        kernel = joined((32, 16, 40, 33), width, outputs)
        (rows,) = {str(kernel.stores[0].axes[0].arg.name)}
        for found in (starts(kernel, AVX2)[0], quick_starts(kernel, AVX2)[0], quick_starts(kernel, AVX2, 2)[0]):
            assert not any(o.op == "UPCAST" and o.on == rows for o in found), (width, outputs, found)
            check_twin(kernel, found, AVX2)
            check_floats(kernel, found, AVX2)


def moments(clouds: int, points: int) -> Kernel:
    """Sums of products of the coordinates of each cloud's points, less a mean that all of them share."""
    kb = KernelBuilder("moments")
    c, e, f, p, q = kb.axis("c", clouds), kb.axis("e", 3), kb.axis("f", 3), kb.axis("p", points), kb.axis("q", points)
    x = kb.input("x", (clouds, points, 3), float32)
    mean = kb.sum("mean", (c, e), q, x[c, q, e] * (1.0 / points))
    m = kb.sum("m", (c, e, f), p, exp(x[c, p, e] - mean[c, e]) + sqrt(abs(x[c, p, f] - mean[c, f])))
    kb.store("y", float32, (clouds, 3, 3), (c, e, f), m[c, e, f])
    return kb.build()


def test_lanes_go_along_a_sum_whose_points_lie_closer_together() -> None:
    for target in (AVX2, named("znver4")):
        found = TinyAxes().quick(StartFacts(normalise(moments(1000, 48)), target))
        assert found[0][0].on in ("p", "q") and found[1][0].on == "c"
        assert TinyAxes().quick(StartFacts(gravity(1024), target))[0][0].on == "i"
