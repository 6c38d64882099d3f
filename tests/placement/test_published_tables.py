"""Simulated schedules against the tables and closed forms that were published for them."""

from __future__ import annotations

import pytest
from published import PROFILED, ZERO_BUBBLE
from tilewright.placement import PartCosts, equal_parts, generate, simulate
from tilewright.placement.pipeline_schedule import Place, StageOp


@pytest.mark.slow
def test_zero_bubble_table() -> None:
    """Bubble rates of 1F1B, ZB-H1 and ZB-H2 for 12 profiled settings: all 36 to 4 digits (arXiv 2401.10241)."""
    for s, paper in zip(PROFILED, ZERO_BUBBLE, strict=True):
        costs = equal_parts(s.p, PartCosts(s.f, s.b, s.w), s.c)
        got = [f"{simulate(generate(name, s.p, s.m), costs).bubble:.4f}" for name in ("1f1b", "zb-h1", "zb-h2")]
        assert got == [f"{x:.4f}" for x in paper], s


def test_interleaved_with_all_transfers_and_as_their_repository_counts_them() -> None:
    """Their .1055 and .0818 count transfers for the first microbatch of each group of p only; all counted, it is more."""
    for s, theirs, ours in zip(PROFILED, (0.1055, 0.0818), (0.1090, 0.0847)):
        chunks = s.layers // s.p
        costs = equal_parts(s.p * chunks, PartCosts(s.f, s.b, s.w).divided(chunks), s.c)
        schedule = generate("interleaved", s.p, s.m, chunks)

        def first(op: StageOp, _: Place, __: Place, s: object = s) -> float:
            return s.c if op.microbatch % s.p == 0 else 0.0  # type: ignore[attr-defined]

        assert round(simulate(schedule, costs).bubble, 4) == ours
        assert round(simulate(schedule, costs, first).bubble, 4) == theirs


@pytest.mark.parametrize("p, m", [(2, 4), (4, 8), (8, 24)])
def test_closed_forms(p: int, m: int) -> None:
    f, b, w = 5.0, 4.0, 3.0
    work, costs = m * (f + b + w), equal_parts(p, PartCosts(f, b, w))
    idle = {"gpipe": f + b + w, "1f1b": f + b + w, "zb-h1": f + b - w, "zb-h2": f + b - 2 * w}
    held = {"gpipe": m, "1f1b": p, "zb-h1": p, "zb-h2": 2 * p - 1}
    for name, each in idle.items():
        line = simulate(generate(name, p, m), costs)
        assert (line.step - work, max(line.in_flight)) == ((p - 1) * each, held[name]), name
        assert max(line.memory) == held[name]
    for v in (2, 4):
        line = simulate(generate("interleaved", p, m, v), equal_parts(p * v, PartCosts(f, b, w).divided(v)))
        assert line.step - work == pytest.approx((p - 1) * (f + b + w) / v)


@pytest.mark.parametrize("p", [4, 6, 8])
def test_zb_v_is_never_idle_where_all_passes_take_as_long(p: int) -> None:
    for m in (2 * p, 3 * p + 1):
        line = simulate(generate("zb-v", p, m), equal_parts(2 * p, PartCosts(1, 1, 1)))
        assert line.step == 6 * m and max(line.in_flight) == 2 * p  # two chunks of each of p microbatches


@pytest.mark.parametrize("p, m", [(4, 12), (8, 24), (9, 27), (16, 48)])
def test_v_half_and_v_min(p: int, m: int) -> None:
    """At most (p + 2) // 2 and (p + 4) // 3 microbatches, and half and two thirds of 1F1B's idle time (arXiv 2405.15362 and its README)."""
    for name, share, held in (("v-half", 1 / 2, (p + 2) // 2), ("v-min", 2 / 3, (p + 4) // 3)):
        line = simulate(generate(name, p, m), equal_parts(2 * p, PartCosts(1, 1, 1)))
        assert max(line.in_flight) <= 2 * held and line.memory == line.in_flight
        assert line.step - 6 * m <= share * 6 * (p - 1) and line.bubble <= share * p / m
        small = simulate(generate(name, p, 1), equal_parts(2 * p, PartCosts(1, 1, 1)))
        assert small.makespan >= 4 * p


@pytest.mark.parametrize("p, m", [(2, 4), (4, 10), (8, 20)])
def test_dualpipe(p: int, m: int) -> None:
    """(p/2 - 1)(F&B + B - 3W) with B the whole backward pass, and p + 1 activations (DeepSeek's README); 66 cells a stage for p = 8, m = 20."""
    line = simulate(generate("dualpipe", p, m), equal_parts(p, PartCosts(1, 1, 1, pair=3)))
    assert set(line.idle) == {(p // 2 - 1) * (3 + 2 - 3)} and set(line.in_flight) == {p + 1}
    assert line.makespan == 3 * m + line.idle[0]
    other = simulate(generate("dualpipe", p, m), equal_parts(p, PartCosts(2, 3, 1, pair=5)))
    assert max(other.idle) <= (p // 2 - 1) * (5 + 4 - 3)
