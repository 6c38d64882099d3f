"""TC of tensor cores as an option: how axes are cut, what is illegal and why, its effects, and what a search may append."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics.model import estimate
from tilewright.ir import OptError
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts.actions import actions
from tilewright.opts.schedule import Scheduled
from tilewright.opts.schedule_text import schedule_text
from tilewright.program.listing import show

BF16, F16, TF32, S8 = "mma.m16n8k16.bf16", "mma.m16n8k16.f16", "mma.m16n8k8.tf32", "mma.m16n8k32.s8"
LARGE = {"m": 256, "n": 256, "k": 512}


def tc(row: str = BF16, m: str = "m", n: str = "n", k: str = "k", on: str = "acc") -> list[Any]:
    return ["TC", on, {"m": m, "n": n, "k": k, "row": row}]


def scheduled(
    opts: Sequence[Any], name: str = "matmul", shape: dict[str, Any] | None = None, dtype: str = "bfloat16", target: str = "sm_90a"
) -> Scheduled:
    return apply(named_kernels.make(name, shape or LARGE, dtype), parse(list(opts)), targets.named(target))


def test_the_instruction_is_the_innermost_part_of_its_axes() -> None:
    s = scheduled([tc(), ["UPCAST", "m", 64], ["UPCAST", "n", 32], ["LOCAL", "m", 2], ["TILE", "k", 64]])
    m, n, k = ({p.name: (p.kind, p.trips, p.stride) for p in s.plans[a].parts} for t in s.tensors.values() for a in (t.m, t.n, t.k))
    assert m == {
        "m": ("grid", 2, 128), "m.w": ("thread", 2, 64), "m.v": ("upcast", 4, 16), "m.c": ("upcast", 2, 8), "m.l": ("thread", 8, 1),
    }  # fmt: skip
    assert n == {"n": ("grid", 8, 32), "n.v": ("upcast", 4, 8), "n.l": ("thread", 4, 2), "n.u": ("upcast", 2, 1)}
    assert k == {"k": ("serial", 8, 64), "k.t": ("serial", 4, 16), "k.d": ("dot", 16, 1)}
    assert [(t.var.arg.name, t.count, t.stride) for t in s.threads] == [("n.l", 4, 1), ("m.l", 8, 4), ("m.w", 2, 32)]
    assert s.group == 64


def test_every_element_of_a_block_has_one_thread_and_place() -> None:
    s = scheduled([tc(), ["UPCAST", "m", 32], ["LOCAL", "n", 2]])
    for axis in next((t.m, t.n) for t in s.tensors.values()):
        at = {0}
        for p in s.plans[axis].parts:
            at = {x + i * p.stride for x in at for i in range(p.trips)} if p.kind != "grid" else at
        assert at == set(range(s.plans[axis].block))


def test_options_commute() -> None:
    rest = [tc(), ["UPCAST", "m", 32], ["LOCAL", "m", 2], ["TILE", "k", 64]]
    found = {(s.hash, schedule_text(s).split("decisions")[1], show(lower(s))) for s in (scheduled(o) for o in permutations(rest))}
    assert len(found) == 1


@pytest.mark.parametrize(
    ("opts", "reason"),
    [
        ([tc("vpdpbusd")], "it lacks avx512vnni"),
        ([tc("mma.m16n8k16")], "there is no instruction row"),
        ([tc(S8)], "multiplies int8 by int8 into int32; here it is bfloat16 by bfloat16 into float32"),
        ([tc(), tc()], "has a matrix instruction already"),
        ([tc(m="n")], "m and n must be axes of two families"),
        ([tc(m="x")], "m must name one of m, n"),
        ([["GRID", "grid", {"threads": 1}], tc()], "asks for one thread a group"),
        ([tc(), ["UPCAST", "m", 24]], "must be a multiple of the instruction's 16"),
        ([["UPCAST", "n", 4], tc()], "must be a multiple of the instruction's 8"),
        ([tc(), ["UPCAST", "m", 128], ["UPCAST", "n", 64]], "a thread would hold 256 accumulators, and at most 128 fit"),
        ([tc(), ["UPCAST", "m", 64], ["UPCAST", "n", 64], ["UNROLL", "k", 32]], "1024 instructions would be spelled out"),
        ([tc(), ["UPCAST", "k", 2]], "spell its steps out with UNROLL"),
        ([tc(), ["GROUP", "k", 2]], "a unit of threads sums over it together"),
        ([["GROUP", "k", 2], tc()], "a unit of threads sums over it together"),
        ([tc(), ["TILE", "m", 64], ["MOVE", "k", {"before": "m.t"}]], "so sums would leave registers: MOVE it inside"),
        ([tc(), ["LOCAL", "m", 8], ["LOCAL", "n", 8]], "2048 threads in a group; sm_90a takes at most 1024"),
        ([["LOCAL", "m", 8], ["LOCAL", "n", 8], tc()], "2048 threads in a group; sm_90a takes at most 1024"),
    ],
)
def test_what_is_illegal_is_said(opts: Sequence[Any], reason: str) -> None:
    with pytest.raises(OptError, match=re.escape(reason)):
        scheduled(opts)


def test_other_targets_refuse_it() -> None:
    with pytest.raises(OptError, match=r"cannot execute mma\.m16n8k16\.bf16, it lacks sm80"):
        scheduled([tc()], target="opencl-gpu")
    with pytest.raises(OptError, match=r"cannot execute mma\.m16n8k16\.bf16, it lacks sm80"):
        scheduled([tc()], target="znver5")


@pytest.mark.parametrize(
    ("dtype", "row", "effects"),
    [
        ("bfloat16", BF16, {"REASSOC"}),
        ("bfloat16", F16, {"REASSOC", "DOWNCONVERT"}),
        ("float32", TF32, {"REASSOC", "DOWNCONVERT"}),
        ("int8", S8, set()),
    ],
)
def test_effects_say_whether_operands_lose_digits(dtype: str, row: str, effects: set[str]) -> None:
    s = scheduled([tc(row)], dtype=dtype)
    assert s.effects == effects


def test_sums_of_8_bit_floats_keep_few_digits_before_hopper() -> None:
    for target, effects in (("sm_89", {"REASSOC", "DOWNCONVERT"}), ("sm_90a", {"REASSOC"})):
        assert scheduled([tc("mma.m16n8k32.e4m3")], dtype="float8_e4m3", target=target).effects == effects
    with pytest.raises(OptError, match="here it is float32 by float32"):
        scheduled([tc("mma.m16n8k32.e4m3")], dtype="float32")


def test_a_search_finds_it_from_an_empty_schedule() -> None:
    s = scheduled([], shape={"m": 4096, "n": 4096, "k": 4096})
    found = [more for more in actions(s) if any(o.op == "TC" for o in more)]
    assert {o.fields["row"] for more in found for o in more if o.op == "TC"} == {BF16}
    times = {more: estimate(apply(s.kernel, more, s.target), 1) for more in found}
    alone, best = next(m for m in found if len(m) == 1), min(times, key=times.__getitem__)
    assert {o.op for o in best} == {"TC", "UPCAST", "LOCAL", "TILE", "STAGE"} and times[best] < times[alone] / 4 < estimate(s, 1) / 100
    then = [more for more in actions(apply(s.kernel, alone, s.target)) if len(more) == 1]
    assert {o.amount for (o,) in then if o.op == "LOCAL"} == {2, 4, 8}
    assert {o.amount for (o,) in then if o.op == "UPCAST" and o.on == "m"} == {32, 64, 128, 256}


def test_only_rows_that_suit_the_operands_are_proposed() -> None:
    for dtype, rows in (("int8", {S8}), ("float32", {TF32}), ("float64", set())):
        found = actions(scheduled([], dtype=dtype))
        assert {o.fields["row"] for more in found for o in more if o.op == "TC"} == rows


def test_listings_name_the_instruction() -> None:
    text = schedule_text(scheduled([tc(), ["LOCAL", "m", 2]]))
    assert "32 threads make acc together by mma.m16n8k16.bf16, m=m, n=n, k=k" in text
    assert "groups of 64 threads: n.l:4 m.l:8 m.w:2" in text and "by mma.m16n8k16.bf16 in units of 32 threads" in text
