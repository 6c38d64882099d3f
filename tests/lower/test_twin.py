"""The integer twin: equal in every bit under every schedule, and different as soon as something is wrong."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import odd_kernels
import pytest
from checks import check_twin, twin_of
from random_schedules import NAMES, draw
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import OptError, VerifyError
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node, const
from tilewright.lower import expr, lower, pieces
from tilewright.lower.emit import reduce
from tilewright.opts import apply, legality, loop_tree, parse
from tilewright.program.program import For, If, Instr, Program, Stmt, statements

TARGET = targets.named("avx2")
CASES = [(n, t) for n in named_kernels.NAMES for t in named_kernels.get(n).dtypes]


@pytest.mark.many
@pytest.mark.parametrize(("name", "dtype"), CASES)
@pytest.mark.covering
def test_start_schedules_in_every_type(name: str, dtype: str) -> None:
    d = named_kernels.get(name)
    shape = {**d.odd_shape, **({"b": 1, "h": 2} if name.startswith("attention") else {})}
    kernel = d.kernel(shape, dtype)
    # a second seed in one type only: the twin computes with integers whatever the type, which decides no more than the lanes
    for opts in ((), *starts(kernel, TARGET, 2)[: 2 if dtype == d.dtypes[0] else 1]):
        check_twin(kernel, opts, TARGET)


@pytest.mark.many
@pytest.mark.parametrize("name", odd_kernels.KERNELS)
def test_start_schedules_of_odd_kernels(name: str) -> None:
    make, sizes = odd_kernels.KERNELS[name]
    kernel = make(*sizes)
    for opts in ((), *starts(kernel, TARGET, 2)[:3]):
        check_twin(kernel, opts, TARGET)


# it must be able to fail ------------------------------------------------------------------------------------------
Fault = Callable[[list[Stmt]], None]


def matmul() -> tuple[Kernel, Program]:
    kernel = named_kernels.make("matmul", {"m": 5, "n": 29, "k": 11}, "float32")
    opts = parse([["UPCAST", "m", 3], ["UPCAST", "n", 8], ["UPCAST", "k", 3]])
    return kernel, lower(apply(kernel, opts, TARGET), expand=False)


def drop(op: str) -> Fault:
    """An operation gives its first operand."""

    def fault(found: list[Stmt]) -> None:
        s = [x for x in found if isinstance(x, Instr) and x.op == op][-1]
        s.op, s.args, s.attr = "max", (s.args[0], s.args[0]), None

    return fault


def shorten(label: str) -> Fault:
    """A loop does only its first step."""

    def fault(found: list[Stmt]) -> None:
        loop = next(s for s in found if isinstance(s, For) and s.label == label)
        step = next(s for s in found if isinstance(s, Instr) and s.op == "const" and s.attr == 1 and s.out and s.out.depth == 0)
        assert step.out is not None
        loop.hi = step.out

    return fault


def shift_store(found: list[Stmt]) -> None:
    """A store lands one element further."""
    s = next(x for x in found if isinstance(x, Instr) and x.op == "store" and x.attr.space == "param")
    s.attr = dataclasses.replace(s.attr, offset=s.attr.offset + 1)


def forget_mask(found: list[Stmt]) -> None:
    """A masked select lets everything through."""
    s = [x for x in found if isinstance(x, Instr) and x.op == "select"][-1]
    s.op, s.args = "max", (s.args[1], s.args[1])


@pytest.mark.parametrize(
    "fault", [drop("add"), drop("mul"), shorten("k"), shift_store, forget_mask], ids=["add", "mul", "loop", "store", "mask"]
)
def test_a_faulty_program_is_found(fault: Fault) -> None:
    kernel, program = matmul()
    twin_of(program, kernel, {})
    fault([s for p in program.phases for s in statements(p.body)])
    with pytest.raises((AssertionError, VerifyError)):
        twin_of(program, kernel, {})


def always(value: Any) -> Callable[..., Any]:
    return lambda *args: value


def unclipped(sched: Any, scope: Any, part: Any) -> Node:
    return part.size if isinstance(part.size, Node) else const(part.size)


PATCHES: list[tuple[str, Any, str, Any]] = [
    ("stores are not masked", expr.NestEval, "conditions", always([])),
    ("loops over blocks run past the end", pieces, "trips", unclipped),
    ("a nest joins the loop of what it reads elsewhere", loop_tree._TreeBuilder, "_joins", lambda self, group, item, part, opened: self._next(item, opened) is part),
    ("reductions over ragged copies are not masked", reduce.Accumulators, "step", lambda acc, old, asg: acc.low.b.op(acc.combine, old, acc.ev.value(acc.n.expr, asg))),
    ("grid items may read each other", legality, "_grid", always(None)),
    ("what is read after a loop is kept inside", loop_tree._TreeBuilder, "_read_outside", always(())),
    ("values read across stay in registers", loop_tree, "_alike", always(True)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("what", "owner", "name", "fault"), PATCHES, ids=[p[0] for p in PATCHES])
def test_random_schedules_find_a_fault_in_the_compiler(
    what: str, owner: Any, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, fault)
    monkeypatch.setenv("TILEWRIGHT_VERIFY", "0")  # the twin must find it alone
    for i in range(1500):
        rng = random.Random(f"planted/{i}")
        try:  # (start schedules that are drawn may have been lowered too, to be counted)
            case = draw(rng.choice(NAMES), rng.randrange)
            check_twin(case.kernel, case.opts, case.target, case.vars, case.seed)
        except OptError:
            continue
        except (AssertionError, VerifyError, KeyError, NameError):
            return
    raise AssertionError(f"1500 random schedules did not notice that {what}")


def test_blocks_with_conditions_are_walked() -> None:
    """`statements` reaches into loops and conditions, or faults would be planted nowhere."""
    kernel = named_kernels.make("add", {"m": 2, "n": 20}, "float32")
    program = lower(apply(kernel, parse([["UPCAST", "n", 8], ["CACHE", "y", {"policy": "stream"}]]), TARGET))
    found = [s for p in program.phases for s in statements(p.body)]
    assert any(isinstance(s, If) for s in found) and any(isinstance(s, Instr) and s.op == "store" for s in found)
