"""Sums that units of threads make by matrix instructions of tensor cores: random schedules of kernels of every kind around one give the
integer twin's bits, and floats within the bound."""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from checks import check_floats, check_twin
from cuda_build import needs_cxx, needs_nvrtc
from cuda_text import check_cuda, sources
from random_schedules import shortest
from tensor_kernels import SUMS, Sum, draw
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.heuristics import starts
from tilewright.ir import OptError, sym
from tilewright.ir.kernel import Kernel
from tilewright.lower import lower
from tilewright.opts import Opts, apply, parse
from tilewright.opts.schedule_text import schedule_text
from tilewright.program.listing import show
from tilewright.program.program import Instr, Mem, statements

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
BF16 = ["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": "mma.m16n8k16.bf16"}]
BLOCK = [["TILE", "k", 32], *(["STAGE", x, {"at": "k", "order": "row", "pad": 8, "depth": 3}] for x in "ab")]


@pytest.mark.many
@pytest.mark.parametrize("of", SUMS, ids=lambda s: s.name)
def test_random_schedules_compute_what_the_kernel_says(of: Sum, request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--examples")
    start = random.SystemRandom().randrange(1 << 30) if asked else 0
    for i in range(start, start + (asked or 4)):
        case = draw(of, random.Random(f"{of.name}/{i}").randrange)

        def said(c=case) -> str:
            try:
                check_twin(c.kernel, c.opts, c.target, c.vars, c.seed)
                check_floats(c.kernel, c.opts, c.target, c.vars, c.seed)
            except OptError as e:
                return "" if "TC" not in str(e) else str(e)
            except Exception as e:
                return f"{type(e).__name__}: {e}"
            return ""

        if said():
            case = shortest(case, lambda c: bool(said(c)))
            pytest.fail(f"{case}\n  {said(case)}")


@pytest.mark.slow
def test_the_cases_have_what_tensor_cores_have() -> None:
    """Both ways of reading rows of shared memory, plain loads, masks past the end of k, several warps, and all kinds of staged tiles."""
    seen: Counter[str] = Counter()
    for of in SUMS:
        for i in range(6):
            case = draw(of, random.Random(f"{of.name}/{i}").randrange)
            try:
                program = lower(apply(case.kernel, case.opts, case.target))
            except OptError:
                continue
            ops = {s.op for p in program.phases for s in statements(p.body) if isinstance(s, Instr)}
            assert "mma" in ops
            seen.update(ops & {"ldmatrix", "ldmatrix_t", "select", "barrier", "shfl_xor"}, cases=1, warps=program.phases[0].threads > 32)
            seen.update({o.op for o in case.opts}, swizzled=any(o.op == "STAGE" and o.fields["swizzle"] for o in case.opts))
    assert seen["cases"] >= 5 * len(SUMS), seen
    assert all(seen[x] >= 5 for x in ("ldmatrix", "ldmatrix_t", "select", "barrier", "shfl_xor", "warps", "swizzled")), seen
    assert all(seen[x] >= 3 for x in ("SPLIT", "SWIZZLE", "GROUP", "LOCAL", "UNROLL", "TILE")), seen


TEXTS = {
    "staged": ("matmul", {"m": 32, "n": 32, "k": 96}, [["UPCAST", "m", 32], ["UPCAST", "n", 16], ["LOCAL", "n", 2], *BLOCK]),
    "ragged": ("matmul_nt", {"m": 21, "n": 27, "k": 45}, [["UPCAST", "n", 16]]),
}


@pytest.mark.parametrize("name", TEXTS)
def test_schedule_and_program_are_as_kept(name: str) -> None:
    """To accept a change run `TILEWRIGHT_GOLDEN=write python -m pytest tests/lower/test_tensor_cores.py` and review what git shows."""
    kernel, shape, opts = TEXTS[name]
    s = apply(named_kernels.make(kernel, dict(shape), "bfloat16"), parse([BF16, *opts]), targets.named("sm_80"))
    text = f"{schedule_text(s)}\n{show(lower(s))}"
    path = GOLDEN / f"tensor-{name}.txt"
    if os.environ.get("TILEWRIGHT_GOLDEN") == "write":
        path.write_text(text)
    assert path.exists() and text == path.read_text(), f"{path.name} differs; if that is meant, write it with TILEWRIGHT_GOLDEN=write"


def test_a_row_of_ldmatrix_goes_to_other_threads_than_the_one_that_names_it() -> None:
    """Each thread names just the row that it wrote itself: the rows still go to others, so that there must be a barrier."""
    of = next(s for s in SUMS if s.name == "bfloat16tt")
    instruction = ["TC", "acc", {"k": "k", "m": "n", "n": "m", "row": "mma.m16n8k16.bf16"}]
    opts = parse([instruction, ["UNROLL", "k", 2], ["STAGE", "a", {"at": "n", "order": "row", "pad": 8}]])
    check_twin(of.make(16, 8, 21), opts, targets.named("sm_90a"))


@pytest.mark.many
@pytest.mark.parametrize("size", ["m", "n", "k"])
def test_sizes_may_be_symbols(size: str) -> None:
    shape: dict[str, Any] = {"m": 40, "n": 24, "k": 64}
    kernel = named_kernels.make("matmul", shape | {size: sym(size, 1, 90)}, "bfloat16")
    for opts in (
        [BF16],
        [BF16, ["UPCAST", "m", 32], ["LOCAL", "n", 2], *BLOCK[:1], *(["STAGE", x, {"at": "k", "order": "row"}] for x in "ab")],
    ):
        check_twin(kernel, parse(opts), targets.named("sm_90a"), {size: 37})


# Attention and its gradients by tensor cores: what one product makes goes to the next in registers.


SM90, SM80 = targets.named("sm_90a"), targets.named("sm_80")
SIZES: dict[str, int] = {"b": 1, "h": 2, "s": 64, "d": 32, "causal": 1, "w": 20, "shared": 2}
LOWER = frozenset({"REASSOC", "DOWNCONVERT"})


def make(name: str, dtype: str = "bfloat16", **sizes: int) -> Kernel:
    return named_kernels.make(name, {n: (SIZES | sizes).get(n, 1) for n in named_kernels.get(name).shape_names}, dtype)


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
