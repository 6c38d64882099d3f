"""Attention and its gradients by tensor cores: what one product makes goes to the next in registers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from checks import check_floats, check_twin
from cuda_build import needs_cxx, needs_nvrtc
from cuda_text import check_cuda, sources
from tilewright import kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.heuristics import starts
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import Opts, apply, parse
from tilewright.program.program import Instr, Mem, statements

SM90, SM80 = targets.named("sm_90a"), targets.named("sm_80")
SIZES: dict[str, int] = {"b": 1, "h": 2, "s": 64, "d": 32, "causal": 1, "w": 20, "shared": 2}
LOWER = frozenset({"REASSOC", "DOWNCONVERT"})


def make(name: str, dtype: str = "bfloat16", **sizes: int) -> Kernel:
    return kernels.make(name, {n: (SIZES | sizes).get(n, 1) for n in kernels.get(name).shape_names}, dtype)


def products(of: dict[str, tuple[str, str, str]], suffix: str) -> list[Any]:
    return [["TC", value, {"m": m, "n": n, "k": k, "row": f"mma.m16n8k16.{suffix}"}] for value, (m, n, k) in of.items()]


def forward(tile: int = 32, warps: int = 2, d: int = 32, suffix: str = "bf16") -> Opts:
    found = products({"dot": ("row", "key@dot", "d@dot"), "O": ("row", "d@out", "key@out")}, suffix)
    cuts = [["UPCAST", f"key@{x}", tile] for x in ("dot", "score", "max", "p", "sum")]
    stages = [["STAGE", x, {"at": "key", "order": "row", "depth": 2}] for x in "kv"]
    return parse(
        json.dumps(
            [["TILE", "key", tile], *found, *([["LOCAL", "row", warps]] if warps > 1 else []), *cuts, ["UPCAST", "d@out", d], *stages]
        )
    )


def to_queries() -> Opts:
    found = products({"dot": ("row", "key@in", "d@in"), "dP": ("row", "key@in", "d@in"), "total": ("row", "d@out", "key@out")}, "bf16")
    more = [
        ["LOCAL", "row", 2],
        ["UPCAST", "key@in", 32],
        ["UPCAST", "d@out", 32],
        *(["STAGE", x, {"at": "key", "order": "row"}] for x in "kv"),
    ]
    return parse(json.dumps([["TILE", "key", 32], *found, *more]))


def to_keys() -> Opts:
    first = {x: ("key", "row@in", "d@in") for x in ("dot", "dP")}
    found = products({**first, **{x: ("key", "d@out", "row@out") for x in ("keys", "values")}}, "bf16")
    stages = [["STAGE", x, {"at": "row", "order": "row"}] for x in ("q", "dy")]
    return parse(json.dumps([["TILE", "row", 32], *found, ["LOCAL", "key", 2], ["UPCAST", "row@in", 32], ["UPCAST", "d@out", 32], *stages]))


CASES = {
    "causal": (make("attention"), forward()),
    "ragged": (make("attention_full", "float16", s=50, d=20), forward(16, 1, 24, "f16")),
    "window, statistics": (make("attention_window", h=1), forward()),
    "lse": (make("attention_lse", shared=1), forward()),
    "shared heads": (make("attention_grouped", d=16), forward(16, 2, 16)),
    "gradient of queries": (make("attention_dq", shared=1), to_queries()),
    "gradients of keys and values": (make("attention_dkv", shared=1), to_keys()),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_it_is_right(case: tuple[Kernel, Opts]) -> None:
    kernel, opts = case
    check_twin(kernel, opts, SM90)
    check_floats(kernel, opts, SM80)
    assert apply(kernel, opts, SM80).effects == LOWER


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ["causal", "gradients of keys and values"])
def test_the_text_gives_the_interpreters_bits(name: str) -> None:
    kernel, opts = CASES[name]
    check_cuda(kernel, opts, SM90)


def test_the_weights_stay_in_registers() -> None:
    """Nothing but operands of products is in shared memory: two tiles, and no stores of single numbers."""
    program = lower(apply(CASES["causal"][0], CASES["causal"][1], SM90))
    stored = [s for p in program.phases for s in statements(p.body) if isinstance(s, Instr) and s.op == "store" and isinstance(s.attr, Mem)]
    assert all(s.mem.space != "shared" for s in stored)


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("name", ["attention", "attention_full", "attention_dq", "attention_dkv"])
def test_start_schedules_use_tensor_cores_where_that_is_allowed_and_spill_little(name: str) -> None:
    kernel = make(name, b=4, h=16, s=2048, d=64, shared=1)
    first = starts(kernel, SM90, 1, LOWER)[0]
    assert sum(o.op == "TC" for o in first) >= 2
    assert all(o.op != "TC" for o in starts(kernel, SM90)[0])
    ((_, source),) = sources(kernel, [first], SM90)
    _, log = nvrtc.compile(source.text, "sm_90a")
    assert all(
        r.spill_stores <= 64 for r in nvrtc.resources(log).values()
    )  # (the assembler keeps a word or two elsewhere of its own accord)
