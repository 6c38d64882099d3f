"""Schedules that ask for more memory than any machine should give are illegal, with a message that says how much and what instead."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from tilewright import named_kernels, targets
from tilewright.ir import KernelBuilder, OptError, exp, float32
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.opts import memory_limits as room

TARGET = targets.named("avx2")


def scheduled(name: str, shape: dict[str, int], opts: list[Any], target: targets.Target = TARGET) -> Any:
    return apply(normalise(named_kernels.make(name, shape, "float32")), parse(opts), target)


@pytest.mark.parametrize(
    ("shape", "chunks", "mib"),
    [
        ({"m": 1024, "n": 1024, "k": 1024}, 1024, 4096),  # 12 MiB of operands
        ({"m": 32768, "n": 16384, "k": 1024}, 1024, 2 << 20),  # two terabytes
    ],
)
def test_the_workspace_of_splitk_is_bounded(shape: dict[str, int], chunks: int, mib: int) -> None:
    message = f"SPLIT(k, {chunks}): the partial results would take {mib} MiB; at most 256 MiB are allowed: take fewer chunks"
    with pytest.raises(OptError, match=re.escape(message)):
        scheduled("matmul", shape, [["SPLIT", "k", chunks]])


def test_a_workspace_of_the_most_that_is_allowed() -> None:
    assert scheduled("matmul", {"m": 1024, "n": 1024, "k": 1024}, [["SPLIT", "k", 64]]).phases


def test_what_lies_on_every_core_adds_up() -> None:
    def staged(cores: int) -> Any:
        whole = [["PARALLEL", "n"], ["STAGE", "a", {"at": "n", "order": "row"}]]
        return scheduled("matmul", {"m": 2048, "n": 2048, "k": 2048}, whole, dataclasses.replace(TARGET, cores=cores))

    assert staged(4).stages
    message = r"STAGE of a: 0 MiB and 16 MiB for each of 200 cores are 32\d\d MiB; at most 2048 MiB are allowed: use smaller tiles"
    with pytest.raises(OptError, match=message):
        staged(200)


def test_what_is_packed_once_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MAX_PROGRAM_BYTES", 1 << 20)
    monkeypatch.setattr(room.check_total, "__defaults__", (1 << 20,))
    once = [["STAGE", "b", {"at": "once", "order": "panel"}]]
    assert scheduled("matmul:constant=b", {"m": 8, "n": 256, "k": 256}, once).stages
    with pytest.raises(OptError, match="STAGE of b: 4 MiB and 0 MiB for each of"):
        scheduled("matmul:constant=b", {"m": 8, "n": 1024, "k": 1024}, once)


def test_values_that_the_kernel_keeps_count_but_are_no_fault_of_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """v is summed and then read again, so it is kept whole in any schedule."""
    kb = KernelBuilder("k")
    i, j, k = kb.axis("m", 64), kb.axis("n", 64), kb.axis("m@r", 64)
    x = kb.input("x", (64, 64), float32)
    v = kb.sum("v", (i, j), kb.axis("q", 4), exp(x[i, j]))
    r = kb.sum("r", (j,), k, v[k, j])
    kb.store("y", float32, (64, 64), (i, j), v[i, j] + r[j])
    kernel = normalise(kb.build())
    plain = lower(apply(kernel, (), TARGET))
    need = room.total_bytes(TARGET, plain.work, plain.scratch)
    assert need > 64 * 64 * 4
    monkeypatch.setattr(room, "MAX_PROGRAM_BYTES", 1)
    assert lower(apply(kernel, parse([["UPCAST", "n", 8]]), TARGET)).scratch <= plain.scratch  # as much as without options
    with pytest.raises(OptError, match="use smaller tiles"):
        lower(apply(kernel, parse([["STAGE", "x", {"at": "m", "order": "row"}]]), TARGET))
