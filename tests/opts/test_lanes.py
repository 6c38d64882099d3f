"""Lanes, shared loops and registers are decided once, in the schedule; lowering does what was decided."""

from __future__ import annotations

import pytest
from checks import check_compiled, check_twin
from tilewright import KernelBuilder, heuristics, named_kernels, opts, targets
from tilewright.ir import exp, sin
from tilewright.ir.dtypes import float32, float64, int32
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.lower.expr import NestEval
from tilewright.opts import opt
from tilewright.program.program import Instr, statements


def narrowing(n: int = 64) -> Kernel:
    """A float64 input, stored as float32."""
    k = KernelBuilder("narrow")
    a = k.axis("n", n)
    x = k.input("x", (n,), float64)
    k.store("y", float32, (n,), (a,), (x[a] * x[a]).cast(float32))
    return normalise(k.build())


def test_the_widest_type_decides_how_many_lanes_all_nests_have() -> None:
    target = targets.named("znver5")
    s = opts.apply(narrowing(), (opt("UPCAST", "n", 16),), target)
    found = s.lanes(s.nests[0])
    assert found.lane is not None and found.width == 8 == target.lanes(float64)
    made = [i for p in lower(s).phases for i in statements(p.body) if isinstance(i, Instr) and i.op == "store"]
    assert {i.args[1].lanes for i in made} == {found.width}


@pytest.mark.many
@pytest.mark.parametrize("name", ["layernorm", "matmul_bias_gelu", "attention_dkv", "cumsum", "cross_entropy"])
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "znver5", "sm_90a"])
@pytest.mark.covering
def test_lowering_gives_each_nest_the_lanes_of_the_schedule(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, t = normalise(named_kernels.make(name)), targets.named(target)
    seen: list[NestEval] = []
    made = NestEval.__init__
    monkeypatch.setattr(NestEval, "__init__", lambda self, *a, **k: (made(self, *a, **k), seen.append(self))[0])
    for o in heuristics.starts(kernel, t, 2)[:2]:
        seen.clear()
        s = opts.apply(kernel, o, t)
        lower(s)
        mine = [e for e in seen if type(e) is NestEval and any(e.nest is n for p in (s, *s.phases) for n in p.nests)]
        assert mine
        for e in mine:
            found = e.low.sched.lanes(e.nest)
            assert (e.lane, e.width) == (found.lane, found.width), (name, target, e.nest.name)


def test_a_value_that_every_reader_wants_where_it_is_made_stays_in_registers() -> None:
    kernel, t = normalise(named_kernels.make("softmax")), targets.named("x86-64-v3")
    plain = opts.apply(kernel, (), t)
    rows = opts.apply(kernel, (opt("PARALLEL", "m"),), t)
    assert {v.name for v in kernel.values.values() if v.reduce_axes} <= rows.tree.registers | plain.tree.registers
    assert rows.tree.registers and not rows.tree.merged


def test_lanes_over_rows_are_those_of_blocks_that_steps_of_the_rows_turn() -> None:
    kernel, t = normalise(named_kernels.make("sum_rows", {"m": 64, "n": 64}, "float32")), targets.named("x86-64-v3")
    over = (opt("UPCAST", "m", 8), opt("UNROLL", "n", 8))
    found = {o: opts.apply(kernel, o, t) for o in (over, over[:1], (*over[:1], opt("UPCAST", "n", 8)))}
    lanes = [s.lanes(next(n for n in s.nests if n.kind == "reduce")).lane for s in found.values()]
    # steps are a block with the rows; without them each lane would be loaded alone; partial sums side by side are lanes themselves
    assert [lane and lane.name for lane in lanes] == ["m.u", None, "n.u"]


def halved(n: int) -> Kernel:
    """Every second place of a signal, each with its neighbours."""
    kb = KernelBuilder("halved")
    i, x = kb.axis("n", n), kb.input("x", (2 * n + 5,), float64)
    kb.store("y", float64, (n,), (i,), sum((0.1 * k * x[2 * i + k] for k in range(1, 7)), x[2 * i]))
    return normalise(kb.build())


@pytest.mark.parametrize("n", [61, 20])
def test_a_ragged_end_leaves_lanes_to_the_whole_steps(n: int) -> None:
    """What reaches past the extent is masked in the last step alone, so that all others pick from whole vectors."""
    t, cut = targets.named("x86-64-v4"), (opt("UPCAST", "n", 8),)
    s = opts.apply(halved(n), cut, t)
    assert (s.lanes(s.nests[0]).width == 8) == (n == 61)  # of three steps, one with masks is much
    short = opts.apply(halved(n), (opt("UPCAST", "n", 4),), targets.named("x86-64-v3"))
    assert (short.lanes(short.nests[0]).lane is None) == (n == 61)  # (four lanes are no gain, but where no end is ragged)
    check_twin(halved(n), cut, t)
    check_compiled(halved(n), cut)


def pull(n: int, near: int) -> Kernel:
    """What the neighbours in a list do to each point."""
    kb = KernelBuilder("pull")
    i, k = kb.axis("n", n), kb.axis("k", near)
    at, x = kb.input("at", (n, near), int32, range=(0, n - 1)), kb.input("x", (n, 3), float32)
    d, e, f = (x[i, c] - x[at[i, k].cast("int64"), c] for c in range(3))
    kb.store("f", float32, (n,), (i,), kb.sum("s", (i,), k, d / (1.0 + d * d + e * e + f * f))[i])
    return normalise(kb.build())


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4"])
def test_sums_of_what_lies_anywhere_have_lanes_for_much_arithmetic(target: str) -> None:
    t, cut = targets.named(target), (opt("UPCAST", "k", 8),)
    s = opts.apply(pull(500, 48), cut, t)
    nest = next(n for n in s.nests if n.kind == "reduce")
    lane = s.lanes(nest).lane
    assert lane is not None and lane.axis in nest.reduce_axes
    check_twin(pull(37, 16), cut, t)
    check_compiled(pull(37, 16), cut)


def scaled(n: int, much: bool) -> Kernel:
    """Groups of four by what each group has in common."""
    kb = KernelBuilder("scaled")
    i, c = kb.axis("n", n), kb.axis("c", 4)
    x, t = kb.input("x", (n, 4), float32), kb.input("t", (n,), float32)
    common = sin(t[i]) * exp(x[i, 0] + x[i, 3]) if much else t[i] + x[i, 0]
    kb.store("y", float32, (n, 4), (i, c), common * x[i, c])
    return normalise(kb.build())


@pytest.mark.parametrize("much", [True, False])
def test_lanes_are_over_groups_as_long_as_a_vector_that_share_much(much: bool) -> None:
    t, cut = targets.named("x86-64-v2"), (opt("UPCAST", "n", 8), opt("UPCAST", "c", 4))
    s = opts.apply(scaled(64, much), cut, t)
    found = s.lanes(s.nests[0])
    assert found.width == 4 and found.lane is not None and found.lane.name == ("n.u" if much else "c.u")
    check_twin(scaled(37, much), cut, t)
    check_compiled(scaled(37, much), cut, t)
