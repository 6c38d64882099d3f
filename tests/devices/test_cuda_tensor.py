"""CUDA text of tensor cores: what NVRTC makes of it, and the models in C++, which have the interpreter's bits in both orders of threads."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_build import ARCHITECTURES, needs_cxx, needs_nvdisasm, needs_nvrtc
from cuda_text import check_cuda, sources
from random_schedules import Case
from tensor_kernels import SUMS, Sum, draw
from tensor_programs import Tile, matmul, operands, product
from tilewright import named_kernels, targets
from tilewright.devices.cuda import nvrtc
from tilewright.devices.cuda.host import HostModule, HostProgram, entries, run_on_host
from tilewright.devices.cuda.machine_code import counts
from tilewright.interp import run
from tilewright.ir import OptError, VerifyError
from tilewright.ir.dtypes import DType, bfloat16, float16, float32
from tilewright.ir.node import const
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.program.builder import Builder
from tilewright.program.program import Mem, Param, Program
from tilewright.renderers import Source, render
from tilewright.targets.tensor_rows import BY_NAME

pytestmark = pytest.mark.slow
GENERATIONS = {"ampere": "sm_80", "ada": "sm_89", "hopper": "sm_90a"}


def tiles(generation: str) -> list[Tile]:
    """One tile of each row that a generation has, some of them both ways."""
    out = []
    for row in BY_NAME.values():
        if row.rules and generation not in row.rules:
            continue
        deep = 16 if row.k == 8 else 64 if row.k == 32 else 32
        out.append(Tile(row.name, turned=row.a.size != 2, deep=deep, generation=generation))
    return [*out, Tile("mma.m16n8k16.bf16", turned=True, down=1, across=2, wide=2, generation=generation)]


def added(tile: Tile, generation: str) -> object:
    """How a generation adds up the products of a tile's row; rows of whole numbers have no rule. None: it has no such row."""
    rules = BY_NAME[tile.row].rules
    return rules.get(generation) if rules else "exactly"


def first_of_their_kind(generation: str) -> list[Tile]:
    """The tiles whose row no earlier generation adds up in the same way."""
    earlier = [*GENERATIONS][: [*GENERATIONS].index(generation)]
    return [t for t in tiles(generation) if all(added(t, e) != added(t, generation) for e in earlier)]


def rendered(*some: Tile) -> Source:
    return render(matmul(*some), targets.named(GENERATIONS[some[0].generation]))


@needs_cxx
@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_models_have_the_interpreters_bits(generation: str, request: pytest.FixtureRequest) -> None:
    """Near one, and any bits at all: subnormal numbers, infinities, NaNs."""
    some = tiles(generation) if request.config.getoption("--thorough") else first_of_their_kind(generation)
    p, host = matmul(*some), HostProgram(rendered(*some))
    try:
        for how in ("near", "bits"):
            rng = np.random.default_rng(7)
            given = [x for t in some for x in operands(t, rng, how)]
            found = []
            for execute in (run, lambda p, a: host.run(a), lambda p, a: host.run(a, reverse=True)):
                arrays = [x.copy() for x in given]
                execute(p, arrays)
                found.append([c.tobytes() for c in arrays[2::3]])
            for i, t in enumerate(some):
                assert found[0][i] == found[1][i] == found[2][i], (t.row, how)
    finally:
        host.close()


MUTANTS = {
    "barrier": "", "transposed": "", "swizzle": "", "stride": "",
    "lane": r"waits in line \d+ for the other lanes of mask ffffffff to come to the same mma_m16n8k16_bf16|mma_m16n8k16_bf16 without lane 31",
    "element": r"ldmatrix_x4 from an address that is no multiple of 16|not aligned",
}  # fmt: skip
"""What is said of each; '' where a result is wrong and nothing is said."""


@pytest.fixture(scope="module")
def mutants() -> Iterator[dict[str, Any]]:
    """(kernel, tile) of each, in one module."""
    some = {m: Tile("mma.m16n8k16.bf16", mutant=m) for m in ("", *MUTANTS)}
    source = rendered(*some.values())
    module = HostModule(source.text, entries(source))
    yield {"module": module, "kernels": dict(zip(some, zip(entries(source), some.values(), strict=True), strict=True))}
    module.close()


def launched(mutants: dict[str, Any], mutant: str) -> tuple[bool, str]:
    """(whether some result is wrong, what is said) of both orders."""
    wrong, said = False, ""
    name, tile = mutants["kernels"][mutant]
    at = list(mutants["kernels"]).index(mutant)
    for reverse in (False, True):
        arrays = operands(tile, np.random.default_rng(8))
        args = [0] * (3 * len(mutants["kernels"]))
        args[3 * at : 3 * at + 3] = [x.ctypes.data for x in arrays]
        try:
            mutants["module"].launch(name, 1, tile.threads, args, 0, reverse)
            wrong |= not np.array_equal(arrays[2], product(tile, arrays))
        except VerifyError as e:
            said = str(e)
    return wrong, said


@needs_cxx
def test_without_a_fault_nothing_is_found(mutants: dict[str, Any]) -> None:
    assert launched(mutants, "") == (False, "")


@needs_cxx
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_mutant_is_found_on_the_host(mutants: dict[str, Any], mutant: str) -> None:
    """The one without its barrier too: a warp runs ahead of the others, and reads what nobody has written."""
    wrong, said = launched(mutants, mutant)
    assert re.search(MUTANTS[mutant], said) if MUTANTS[mutant] else wrong


@needs_nvrtc
@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_row_builds_without_spills(generation: str) -> None:
    some = tiles(generation)
    code, log = nvrtc.compile(rendered(*some).text, GENERATIONS[generation])
    found = nvrtc.resources(log)
    assert code and len(found) == len(some)
    assert all(r.spill_stores == 0 for r in found.values())


def _built(tile: Tile) -> Any:
    code, _ = nvrtc.compile(rendered(tile).text, GENERATIONS[tile.generation])
    return counts(code)


@needs_nvrtc
@needs_nvdisasm
def test_fragments_stay_in_their_registers() -> None:
    """Between `ldmatrix` and `mma` nothing is taken apart and put together again."""
    found = _built(Tile("mma.m16n8k16.bf16"))
    # a step of k: 2 × 4 tiles, from 2 + 4 fragments
    assert found["HMMA.16816.F32.BF16"] % 8 == 0 and found["LDSM"] * 8 == found["HMMA.16816.F32.BF16"] * 6 > 0
    assert not found["PRMT"]


@needs_nvrtc
@needs_nvdisasm
@pytest.mark.parametrize(
    ("row", "generation", "word"),
    [
        ("mma.m16n8k16.f16", "hopper", "HMMA.16816.F32"), ("mma.m16n8k16.f16.f16", "hopper", "HMMA.16816.F16"),
        ("mma.m16n8k8.tf32", "ampere", "HMMA.1688.F32.TF32"), ("mma.m16n8k32.s8", "ampere", "IMMA.16832.S8.S8"),
        ("mma.m16n8k32.e4m3", "ada", "QMMA.16832.F32.E4M3.E4M3"),
    ],
)  # fmt: skip
def test_a_row_becomes_its_instruction(row: str, generation: str, word: str) -> None:
    deep = 16 if "k8" in row else 64 if "k32" in row else 32
    assert _built(Tile(row, turned="16." not in row, deep=deep, generation=generation))[word] > 0


def chained(kind: DType) -> Program:
    """Attention's way: two accumulators of m16n8 side by side are rounded and become the A of the next product, in registers."""
    row = f"mma.m16n8k16.{'bf16' if kind is bfloat16 else 'f16'}"
    params = (Param("x", float32, (32, 8), "in"), Param("b", kind, (32, 4), "in"), Param("y", float32, (32, 4), "out"))
    b = Builder()
    with b.phase(const(1), (), 32) as phase:
        assert phase.thread is not None
        at = b.op("mul", phase.thread, b.const(8))
        tiles = [b.load(Mem("param", 0, float32, 4 * i, 16), at, 4) for i in range(2)]
        left, right = (b.op("cast", b.op("add", t, b.const(0.25, float32, 4)), dtype=kind) for t in tiles)
        a = b.shuffle(left, right, tuple(range(8)))
        half = b.op("mul", phase.thread, b.const(4))
        y = b.mma(row, b.const(0.5, float32, 4), a, b.load(Mem("param", 1, kind, 0, 8), half, 4))
        b.store(Mem("param", 2, float32, 0, 16), half, y)
    return Program("chained", params, (), [phase], align=16, generation="hopper")


@needs_cxx
@pytest.mark.parametrize("kind", [bfloat16, float16])
def test_accumulators_become_the_next_operand(kind: DType) -> None:
    """Two of them are rounded and packed by one instruction."""
    p, rng = chained(kind), np.random.default_rng(9)
    x, weights = rng.standard_normal((32, 8)).astype(np.float32), rng.standard_normal((32, 4)).astype(kind.np)
    x[3, 2], x[5, 1] = np.nan, 1e30
    found = []
    source = render(p, targets.named("sm_90a"))
    for execute in (lambda a: run(p, a), lambda a: run_on_host(source, a)):
        y = np.zeros((32, 4), np.float32)
        execute([x, weights, y])
        found.append(y.tobytes())
    assert found[0] == found[1] and np.isfinite(np.frombuffer(found[0], np.float32)).any()


@needs_nvrtc
@needs_nvdisasm
def test_two_numbers_are_rounded_and_packed_at_once() -> None:
    code, _ = nvrtc.compile(render(chained(bfloat16), targets.named("sm_90a")).text, "sm_90a")
    found = counts(code)
    assert found["F2FP"] == 4 and not found["PRMT"] and found["HMMA"] == 1


@needs_nvrtc
@needs_nvdisasm
def test_hopper_widens_fp8() -> None:
    """What the table says of Hopper: two HMMA of float16 for one of fp8, after conversions."""
    found = _built(Tile("mma.m16n8k32.e4m3", turned=True, deep=64))
    assert found["HMMA.16816.F32"] % (2 * 2 * 4 * 2) == 0 < found["HMMA.16816.F32"] and found["F2FP"] and not found["QMMA"]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("of", SUMS, ids=lambda s: s.name)
@pytest.mark.covering(each=2)
def test_random_schedules_agree_with_the_interpreter_in_every_bit(of: Sum, request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--examples")
    rng = random.Random(None if asked else f"text of {of.name}")
    for _ in range(asked or 1):
        case = draw(of, rng.randrange)
        try:
            check_cuda(case.kernel, case.opts, case.target, case.vars, case.seed)
            if not needs_nvrtc.args[0]:
                _build(case)
        except OptError:
            continue  # some legal schedules cannot be lowered
        except (AssertionError, VerifyError) as e:
            raise AssertionError(f"{case}: {e}") from e


def _build(case: Case) -> None:
    """For every architecture that has the instruction."""
    ((_, source),) = sources(case.kernel, [case.opts], case.target)
    flags = {BY_NAME[str(o.fields["row"])].flag for o in case.opts if o.op == "TC"}
    for arch in (a for a in ARCHITECTURES if flags <= targets.named(a).features):
        _, log = nvrtc.compile(source.text, arch)
        assert set(nvrtc.resources(log)) == set(entries(source))


@pytest.mark.slow
@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize(("name", "dtype", "row"), [("matmul", "bfloat16", "m16n8k16.bf16"), ("matmul_nt", "int8", "m16n8k32.s8")])
def test_large_tiles_build_without_spills(name: str, dtype: str, row: str, arch: str) -> None:
    """Groups of 128 × 128, four warps of 64 × 64: 128 accumulators a thread, as many registers as may hold them."""
    opts = [
        ["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": f"mma.{row}"}],
        *(["UPCAST", a, 64] for a in "mn"), *(["LOCAL", a, 2] for a in "mn"), ["TILE", "k", 128 if dtype == "int8" else 64],
        *(["STAGE", x, {"at": "k", "order": "row", "swizzle": 8}] for x in "ab"),
    ]  # fmt: skip
    target = targets.named(arch)
    kernel = named_kernels.make(name, {"m": 4096, "n": 4096, "k": 4096}, dtype)
    source = render(lower(apply(kernel, parse(opts), target)), target)
    _, log = nvrtc.compile(source.text, arch)
    (found,) = nvrtc.resources(log).values()
    assert (found.spill_stores, found.spill_loads, found.stack) == (0, 0, 0) and found.registers <= 255, found
