"""Threads of a group: how axes are shared, what is refused, and where things are kept."""

from __future__ import annotations

import pytest
from tilewright import heuristics, named_kernels, opts, targets
from tilewright.ir import OptError
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import opt
from tilewright.opts.schedule import Scheduled
from tilewright.program.program import Instr, Program, statements

SM80 = targets.named("sm_80")
TILED = (
    opt("LOCAL", "m", 8), opt("LOCAL", "n", 16), opt("UPCAST", "m", 4), opt("UPCAST", "n", 8), opt("TILE", "k", 16), opt("UNROLL", "k", 4),
    opt("STAGE", "a", at="k", pad=4), opt("STAGE", "b", at="k"),
)  # fmt: skip


def scheduled(name: str, *options: opts.Opt, target: targets.Target = SM80, **shape: int) -> Scheduled:
    return opts.apply(normalise(named_kernels.make(name, shape)), options, target)


def count(program: Program, op: str) -> int:
    return sum(isinstance(s, Instr) and s.op == op for p in program.phases for s in statements(p.body))


def test_an_axis_is_cut_into_vectors_threads_and_copies() -> None:
    s = scheduled("matmul", *TILED, m=256, n=512, k=64)
    parts = {a.arg.name: [(p.name, p.kind, p.trips, p.stride) for p in s.parts(a)] for a in s.plans}
    assert parts["n"] == [("n", "grid", 4, 128), ("n.v", "upcast", 2, 64), ("n.l", "thread", 16, 4), ("n.u", "upcast", 4, 1)]
    assert parts["m"] == [("m", "grid", 8, 32), ("m.l", "thread", 8, 4), ("m.u", "upcast", 4, 1)]
    assert s.group == 128 and [(t.family, t.stride) for t in s.threads] == [("n", 1), ("m", 16)], (
        "neighbours along n, which is consecutive in memory"
    )


def test_a_tile_is_copied_by_all_threads_between_two_barriers() -> None:
    program = lower(scheduled("matmul", *TILED, m=256, n=512, k=64))
    assert count(program, "barrier") == 2
    assert program.shared >= (16 * 36 + 16 * 128) * 4 and program.phases[0].threads == 128 and program.scratch == 0
    copies = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "load" and s.attr.space == "param"]
    assert sum(s.out.lanes for s in copies if s.out is not None) * 128 == 16 * 32 + 16 * 128, "each element once"


def test_the_reduced_dimension_comes_first_in_a_panel_and_rows_are_padded() -> None:
    s = scheduled("matmul", *TILED, m=256, n=512, k=64)
    a, b = s.stages["a"], s.stages["b"]
    assert [(d, extent, stride) for d, _, extent, stride in a.box] == [(1, 16, 36), (0, 32, 1)]
    assert [(d, extent, stride) for d, _, extent, stride in b.box] == [(0, 16, 128), (1, 128, 1)]
    row = scheduled("matmul", *TILED[:6], opt("STAGE", "a", at="k", order="row"), m=256, n=512, k=64).stages["a"]
    assert [(d, stride) for d, _, _, stride in row.box] == [(0, 16), (1, 1)]


def test_a_family_has_one_thread_mapping() -> None:
    s = scheduled("softmax", opt("GROUP", "n@max", 64), m=8, n=256)
    assert {s.plans[a].threads for a in s.plans if a.arg.family == "n"} == {64}
    program = lower(s)
    assert count(program, "shfl_xor") == 2 * 5 and program.shared > 0, "32 neighbours by shuffles, two warps through shared memory"
    assert "REASSOC" in s.effects


def test_what_a_thread_made_itself_stays_its_own() -> None:
    s = scheduled("softmax", opt("GROUP", "n", 32), opt("STAGE", "e", at="m"), m=8, n=256)
    program = lower(s)
    assert program.shared == 0 and program.scratch == 128, "8 of 256 elements a thread, and slack"
    assert count(program, "barrier") == 0


def test_without_shuffles_everything_goes_through_shared_memory() -> None:
    program = lower(scheduled("softmax", opt("GROUP", "n", 64), target=targets.named("opencl-gpu"), m=8, n=256))
    assert count(program, "shfl_xor") == 0 and count(program, "barrier") == 4


def test_on_a_gpu_shared_outer_loops_are_the_grid() -> None:
    assert [p.name for p in scheduled("matmul", m=8, n=8, k=8).grid] == ["m", "n"]
    assert [p.name for p in scheduled("softmax", m=8, n=8).grid] == ["m"]
    assert [p.name for p in scheduled("matmul", target=targets.named("opencl-cpu"), m=8, n=8, k=8).grid] == []
    assert scheduled("embedding_grad").grid == [] or all(p.axis.arg.family != "n" for p in scheduled("embedding_grad").grid), (
        "writes that meet stay in order"
    )


def test_bands_of_the_grid_are_a_permutation() -> None:
    s = scheduled("add", m=4, n=4)
    assert len(s.grid) == 1
    for target in (SM80, targets.named("avx2")):
        more = () if target is SM80 else (opt("PARALLEL", "m"), opt("PARALLEL", "n"))
        swizzled = scheduled("matmul", *more, opt("SWIZZLE", "grid", 2), target=target, m=8, n=6, k=4)
        assert swizzled.swizzle == 2 and swizzled.hash != scheduled("matmul", *more, target=target, m=8, n=6, k=4).hash
    with pytest.raises(OptError, match=r"bands of 4 do not divide the 6 steps of m"):
        scheduled("matmul", opt("SWIZZLE", "grid", 4), m=6, n=6, k=4)
    with pytest.raises(OptError, match="a grid of at least two axes"):
        scheduled("softmax", opt("SWIZZLE", "grid", 2), m=8, n=8)


REFUSED = [
    ("matmul", [opt("LOCAL", "k", 8)], "k is reduced; GROUP shares a reduction"),
    ("matmul", [opt("GROUP", "m", 8)], "nothing reduces over m; LOCAL shares a spatial axis"),
    ("matmul", [opt("GROUP", "k", 6)], "must be a power of two"),
    ("matmul", [opt("LOCAL", "m", 8), opt("LOCAL", "m", 4)], "already shared by 8 threads"),
    ("matmul", [opt("LOCAL", "m", 64), opt("LOCAL", "n", 32)], "2048 threads in a group; sm_80 takes at most 1024"),
    ("matmul", [opt("LOCAL", "m", 1)], "at least 2"),
    ("matmul", [opt("GRID", "grid", threads=1), opt("LOCAL", "m", 8)], "asks for one thread"),
    ("matmul", [opt("LOCAL", "m", 8), opt("GRID", "grid", threads=1)], "has threads already"),
    ("matmul", [opt("GRID", "m", threads=1)], "acts on 'grid'"),
    ("matmul", [opt("SWIZZLE", "m", 2)], "STAGE's field swizzle"),
    ("matmul", [opt("GRID", "grid", registers=8)], "registers is 16 to 255"),
    ("matmul", [opt("STAGE", "a", at="k", swizzle=3)], "swizzle is 2, 4, 8, 16 or 32"),
    ("matmul", [opt("STAGE", "a", at="k", swizzle=4, pad=4)], "without pad"),
    ("matmul", [opt("TILE", "k", 16), opt("STAGE", "a", at="k", swizzle=4)], "for tiles that the threads of a group share"),
    ("matmul", [opt("LOCAL", "m", 16), opt("STAGE", "a", at="n")], "bytes of shared memory; sm_80 has"),
    ("cumsum", [opt("LOCAL", "n", 8)], "scanned in order"),
]


@pytest.mark.parametrize(("name", "options", "reason"), REFUSED)
def test_what_is_illegal_says_why(name: str, options: list[opts.Opt], reason: str) -> None:
    shape = {"m": 128, "n": 128, "k": 4096} if name == "matmul" else {"m": 64, "n": 64}
    with pytest.raises(OptError, match=reason.replace("(", r"\(")):
        scheduled(name, *options, **shape)


@pytest.mark.parametrize("op", ["LOCAL", "GROUP"])
def test_processors_have_no_groups(op: str) -> None:
    with pytest.raises(OptError, match="llvm code has no groups of threads"):
        scheduled("matmul", opt(op, "m", 8), target=targets.named("avx2"), m=64, n=64, k=64)
    with pytest.raises(OptError, match="does not divide registers among threads"):
        scheduled("matmul", opt("GRID", "grid", registers=64), target=targets.named("opencl-cpu"), m=64, n=64, k=64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [(n, "sm_80") for n in named_kernels.NAMES] + [(n, "opencl-gpu") for n in ("matmul", "softmax", "sum_all", "transpose")],
)
@pytest.mark.covering(each=3)
def test_every_kernel_has_start_schedules_that_lower(name: str, target: str) -> None:
    kernel, t = normalise(named_kernels.make(name)), targets.named(target)
    found = heuristics.starts(kernel, t)
    assert len(found) > 1 and () in found
    for o in found[:2]:
        program = lower(opts.apply(kernel, o, t))
        assert program.shared <= t.shared and all(p.threads <= t.max_threads for p in program.phases)
