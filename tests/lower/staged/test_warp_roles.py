"""Products of warpgroups beside a producer: lowered to roles, TMA and wgmma; the interpreter's bits as C++, and right; what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from checks import check_floats, check_twin
from cuda_build import needs_cxx, needs_nvrtc
from cuda_text import check_cuda, sources
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.heuristics import starts
from tilewright.ir import OptError
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import Opts, apply, opt, parse
from tilewright.plan.artefacts import decode_signature, encode_signature
from tilewright.program import abi
from tilewright.program.hopper import BoxLoad
from tilewright.program.program import Instr, Roles, statements

SM90 = targets.named("sm_90a")
STEP = {"bf16": 16, "f16": 16, "s8": 32}


def options(
    consumers: int = 1,
    rows: int = 64,
    columns: int = 64,
    deep: int = 64,
    slots: int = 2,
    suffix: str = "bf16",
    names: str = "ab",
    more: Any = (),
) -> Opts:
    """A group of so many warpgroups of 64 rows, each with `columns` columns."""
    step = STEP[suffix]
    return parse(
        json.dumps(
            [
                ["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": f"wgmma.m64n{columns}k{step}.{suffix}"}],
                *([["LOCAL", "m", consumers]] if consumers > 1 else []),
                ["UPCAST", "m", rows],
                ["UPCAST", "n", columns],
                ["TILE", "k", deep],
                ["UNROLL", "k", deep // step],
                *(["STAGE", x, {"at": "k", "order": "row", "depth": slots}] for x in names),
                ["GRID", "grid", {"warpspec": consumers}],
                *more,
            ]
        )
    )


def matmul(name: str = "matmul", dtype: str = "bfloat16", **shape: int) -> Kernel:
    return named_kernels.make(name, shape, dtype)


def test_the_second_phase_of_a_split_sum_takes_no_shared_memory() -> None:
    """It only adds partial sums: with the first phase's memory one of its groups would fill a multiprocessor."""
    kernel = matmul(m=512, n=512, k=65536)
    split = next(o for o in starts(kernel, SM90) if o[0].op == "SPLIT" and any(x.op == "GRID" for x in o))
    s = lower(apply(kernel, split, SM90)).signature
    assert len(s.items) == 2 and s.shared > 48 << 10 and s.phase_shared == (s.shared, 0)
    assert [abi.dynamic_shared(s, SM90, i) for i in (0, 1)] == [s.shared, 0]
    assert decode_signature(encode_signature(s)) == s


CASES = {
    "n consecutive": (matmul(m=64, n=64, k=128), options()),
    "k consecutive, 40 columns": (matmul("matmul_nt", m=64, n=40, k=128), options(columns=40, slots=3)),
    "m consecutive": (matmul("matmul_tn", m=64, n=64, k=128), options()),
    "two consumers, ragged": (matmul(m=136, n=72, k=328), options(2, slots=3)),
    "epilogue": (matmul("matmul_bias_gelu", "float16", m=64, n=64, k=128), options(suffix="f16")),
    "batch": (matmul("batched_matmul", b=2, m=64, n=64, k=128), options(names="xy")),
    "chunks": (matmul(m=64, n=64, k=512), options(more=[["SPLIT", "k", 2]])),
    "128 rows each": (matmul(m=128, n=64, k=128), options(rows=128, slots=4)),
}


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_it_is_right_and_the_text_gives_the_interpreters_bits(case: tuple[Kernel, Opts]) -> None:
    kernel, opts = case
    check_twin(kernel, opts, SM90)
    check_floats(kernel, opts, SM90)
    check_cuda(kernel, opts, SM90)


def attention(name: str, s: int, d: int, tile: int = 64, consumers: int = 1, **more: int) -> tuple[Kernel, Opts]:
    """Folds by warpgroups: what the first product makes goes into the second as a fragment."""
    kernel = named_kernels.make(name, {"b": 1, "h": 2, "s": s, "d": d, **more}, "bfloat16")
    columns = ("key@score", "key@max", "key@p", "key@sum")
    given = [
        ["TC", "dot", {"m": "row", "n": "key@dot", "k": "d@dot", "row": f"wgmma.m64n{tile}k16.bf16"}],
        ["TC", "O", {"m": "row", "n": "d@out", "k": "key@out", "row": f"wgmma.m64n{d}k16.bf16"}],
        ["TILE", "key", tile],
        *([["LOCAL", "row", consumers]] if consumers > 1 else []),
        ["UNROLL", "d@dot", d // 16],
        *(["UPCAST", name, tile] for name in columns),
        ["UNROLL", "key@out", tile // 16],
        ["STAGE", "P", {"at": "row"}],
        *(["STAGE", name, {"at": "key", "order": "row", "depth": 2}] for name in "kv"),
        ["GRID", "grid", {"warpspec": consumers}],
    ]
    return kernel, parse(json.dumps(given))


FOLDS = {
    "all keys, which lie in two boxes": ("attention_full", 128, 128),
    "a triangle, ragged": ("attention", 200, 64, 64, 2),
    "a band: tiles begin where it does": ("attention_window", 256, 64),
    "heads that share keys": ("attention_grouped", 128, 64),
}


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", FOLDS)
def test_a_fold_passes_fragments_on(name: str) -> None:
    more = {"attention_window": {"w": 70}, "attention_grouped": {"hk": 1}}.get(FOLDS[name][0], {})
    kernel, opts = attention(*FOLDS[name], **more)  # type: ignore[arg-type]
    check_twin(kernel, opts, SM90)
    check_floats(kernel, opts, SM90)
    check_cuda(kernel, opts, SM90)


def test_groups_that_take_several_items_need_equally_many_tiles_in_each() -> None:
    kernel, opts = attention("attention", 512, 64)
    with pytest.raises(OptError, match="how often loop key runs differs"):
        lower(apply(kernel, (*opts, opt("GRID", "grid", persist=1)), replace(SM90, cores=2)))
    for name, more in (("attention", {}), ("attention_window", {"w": 70})):
        kernel, opts = attention(name, 512, 128, **more)
        with pytest.raises(OptError, match="which iterations of loop key run differs"):
            lower(apply(kernel, (*opts, opt("GRID", "grid", cluster=2)), SM90))


@pytest.mark.slow
@needs_nvrtc
def test_the_start_of_attention_is_made_by_warpgroups() -> None:
    """And the assembler neither spills nor puts fences of its own (C7519) between products whose fragments were accumulators."""
    kernel = named_kernels.make("attention", {"b": 4, "h": 16, "s": 4096, "d": 128}, "bfloat16")
    first = starts(kernel, SM90, allowed=frozenset({"REASSOC", "DOWNCONVERT"}))[0]
    assert opt("GRID", "grid", warpspec=2) in first and str(first).count("wgmma.m64n") == 2
    ((_, source),) = sources(kernel, [first], SM90)
    _, log = nvrtc.compile(source.text, "sm_90a")
    (found,) = nvrtc.resources(log).values()
    assert found.spill_stores == 0 and "C75" not in log


PAIRS: Any = [["SWIZZLE", "grid", 2], ["GRID", "grid", {"cluster": 2}]]
CLUSTERS = {
    "neighbours along n share a": (matmul(m=64, n=256, k=128), options(more=PAIRS[1:])),
    "neighbours along m share b, which comes in two boxes": (matmul(m=256, n=256, k=192), options(columns=128, slots=3, more=PAIRS)),
    "b comes in one box, half a box each": (matmul("matmul_nt", m=136, n=200, k=328), options(2, more=PAIRS[1:])),
}


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("case", CLUSTERS.values(), ids=list(CLUSTERS))
def test_pairs_of_groups_bring_halves_for_both(case: tuple[Kernel, Opts]) -> None:
    kernel, opts = case
    check_twin(kernel, opts, SM90)
    check_floats(kernel, opts, SM90)
    check_cuda(kernel, opts, SM90)
    program = lower(apply(kernel, opts, SM90))
    boxes = [s.attr for s in statements(program.phases[0].body) if isinstance(s, Instr) and isinstance(s.attr, BoxLoad)]
    assert program.phases[0].cluster == 2 and {b.multicast for b in boxes} == {0, 3}


@pytest.mark.slow
def test_pairs_go_through_their_items_together() -> None:
    kernel, opts = matmul(m=256, n=256, k=192), options(columns=128, more=[["GRID", "grid", {"persist": 1}], *PAIRS])
    check_twin(kernel, opts, replace(SM90, cores=2))
    with pytest.raises(OptError, match="are odd"):
        apply(kernel, opts, replace(SM90, cores=3))


@pytest.mark.slow
@needs_cxx
def test_slots_go_on_from_item_to_item() -> None:
    """Three blocks of k in two slots: the second item of a group begins in the middle of a round."""
    kernel, opts = matmul(m=256, n=128, k=192), options(more=[["GRID", "grid", {"persist": 1}], ["SWIZZLE", "grid", 2]])
    small = replace(SM90, cores=3)
    check_twin(kernel, opts, small)
    check_cuda(kernel, opts, small)


@needs_nvrtc
@pytest.mark.parametrize(("consumers", "columns"), [(1, 256), (2, 256), (2, 128), (3, 64)])
def test_large_tiles_keep_their_accumulators_in_registers(consumers: int, columns: int) -> None:
    kernel = matmul(m=64 * consumers * 8, n=1024, k=1024)
    ((program, source),) = sources(kernel, [options(consumers, columns=columns, slots=4)], SM90)
    assert sum(isinstance(s, Roles) for s in statements(program.phases[0].body)) == 1
    assert program.phases[0].threads == 128 * (consumers + 1) and len(program.maps) == 2
    _, log = nvrtc.compile(source.text, "sm_90a")
    (found,) = nvrtc.resources(log).values()
    assert found.spill_stores == 0 and "C7508" not in log and "C7510" not in log


REFUSED = [
    (matmul(m=64, n=64, k=128), [["GRID", "grid", {"warpspec": 1}]], "the schedule has 1"),
    (matmul(m=64, n=64, k=128), [["GRID", "grid", {"warpspec": 9}]], "warpspec is 1, 2, 3 warpgroups"),
    (matmul(m=64, n=64, k=260), None, "its elements are not in pieces|TMA cannot address a"),
    (matmul(m=64, n=64, k=128), {"slots": 1}, "with depth=2 or more"),
    (matmul(m=64, n=64, k=128), {"names": "a"}, r"STAGE\(b\) with depth=2 or more"),
    (matmul(m=64, n=64, k=128), {"deep": 32}, "rows of 128 bytes"),
    (matmul(m=64, n=96, k=128), {"columns": 96}, "a multiple of 64 of n"),
    (matmul(m=64, n=192, k=128), {"more": [["GRID", "grid", {"cluster": 2}]]}, "are odd"),
    (matmul(m=128, n=64, k=128), {"more": PAIRS}, "no two halves"),
    (matmul(m=128, n=64, k=128), PAIRS[1:], "producer; add GRID"),
]


@pytest.mark.parametrize(("kernel", "given", "why"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(kernel: Kernel, given: Any, why: str) -> None:
    opts = parse(json.dumps(given)) if isinstance(given, list) else options(**(given or {}))
    with pytest.raises(OptError, match=why):
        apply(kernel, opts, SM90)


def test_cards_without_it_say_so() -> None:
    with pytest.raises(OptError, match="sm_80 cannot execute wgmma"):
        apply(matmul(m=64, n=64, k=128), options(), targets.named("sm_80"))
    with pytest.raises(OptError, match="sm_80 has no TMA and no wgmma"):
        apply(matmul(m=64, n=64, k=128), parse('[["GRID", "grid", {"warpspec": 1}]]'), targets.named("sm_80"))


def test_start_schedules_for_hopper_are_warpgroups_where_the_output_is_large() -> None:
    """Two warpgroups of 64 × 256 beside a producer, a group a multiprocessor (DeepGEMM's and CUTLASS's choice)."""
    first = starts(matmul(m=8192, n=8192, k=8192), SM90)[0]
    assert opt("LOCAL", "m", 2) in first and opt("GRID", "grid", persist=1, warpspec=2) in first
    assert "wgmma.m64n256k16.bf16" in str(first)
    assert "wgmma" not in str(starts(matmul(m=8192, n=8192, k=8192), targets.named("sm_80")))
