"""Loads and stores: masks touch no memory, gathers, bools as bytes, scratch and workspace, hints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import aarch64
import idle_lanes
import idle_tails
import llvmlite.binding as llvm
import numpy as np
import passed
import pytest
from checks import check_compiled, check_twin
from hand_built import DISTINCT, compile_for, object_for, param, run, undefined
from idle_lanes import Bench, masks
from lane_operations import TYPES, dangerous
from tilewright import targets
from tilewright.devices.cpu import c_compiler as cc
from tilewright.devices.cpu.engine import Code, assembly_of, compile_text
from tilewright.interp import Interpreter
from tilewright.ir import DeviceError, KernelBuilder, float64, maximum, minimum
from tilewright.ir.dtypes import DType, bool_, dtype, float32, int32, int64
from tilewright.ir.errors import BuildError
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const, sym
from tilewright.ir.operators import cast
from tilewright.lower import lower
from tilewright.named_kernels import make
from tilewright.opts import apply, parse
from tilewright.plan import best
from tilewright.program.builder import Builder
from tilewright.program.facts import mask_pieces
from tilewright.program.ops import OPS, RENDERED, TWIN_ONLY
from tilewright.program.program import Instr, Mem, Param, Program, statements
from tilewright.renderers import render
from tilewright.targets import Target

HOST = targets.host()
LESSER = [HOST] + [t for t in (targets.named("avx2"), targets.named("x86-64-v2")) if HOST.arch == t.arch and t.features < HOST.features]
target = pytest.mark.parametrize("target", LESSER, ids=lambda t: t.name)
NAMES = ("float32", "float64", "int32", "int64", "int8", "bool", "float16", "bfloat16")
FAR = 1 << 45  # elements away: touching that address is a crash


def ones(name: str, n: int) -> np.ndarray:
    return np.arange(1, n + 1).astype(dtype(name).np)


@pytest.mark.parametrize("name, register", [("znver4", "zmm"), ("avx2", "ymm")])
def test_vectors_on_the_stack_do_not_lie_across_lines(name: str, register: str) -> None:
    """Where the stack begins at any multiple of 16 bytes, what has no register is two to three times as slow in three processes of four."""
    target = targets.named(name)
    lanes, k = target.vector_bytes // 4, make("matmul", {"m": 8, "n": target.vector_bytes, "k": 64})
    text = render(lower(apply(k, parse(f"Um8 Un{4 * lanes}"), target)), target).text
    kept = [line for line in assembly_of(text, target).splitlines() if "(%rsp)" in line and register in line]
    assert kept and not any("vmovups" in line for line in kept)
    assert "alignstack" not in render(lower(apply(k, (), target)), target).text  # (no vectors, no frame)


@pytest.mark.many
@target
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lanes", [8, 16])
@pytest.mark.covering
def test_masked_vectors_touch_only_their_lanes(name: str, lanes: int, target: Target) -> None:
    d, counts = dtype(name), (0, 1, lanes // 2 - 1, lanes - 1, lanes)
    b = Builder()
    with b.phase(const(1), ()) as phase:
        for count in counts:
            # lanes from `count` on are off; the row starts so far back that even the first lane of an empty mask is not mapped
            at = b.const(-FAR if count == 0 else 32 * count)
            mask = b.op("lt", b.const(tuple(range(lanes)), int64, lanes), b.const(count, int64, lanes))
            x = b.load(param(0, d), at, lanes, mask)
            b.store(param(1, d), b.const(32 * count), x)
            b.store(param(2, d), at, x, mask)
    program = Program("masked", tuple(Param(p, d, (600,), "in") for p in "xyz"), (), [phase])
    x, y, z = ones(name, 600), ones(name, 600), ones(name, 600)
    kept = z.copy()
    run(program, [x, y, z], target=target)
    for count in counts:
        row = slice(32 * count, 32 * count + lanes)
        want = np.where(np.arange(lanes) < count, x[row], np.zeros_like(x[row]))
        assert y[row].tobytes() == want.tobytes()
        if count:
            np.testing.assert_array_equal(z[32 * count + count : 32 * count + 32], kept[32 * count + count : 32 * count + 32])
            np.testing.assert_array_equal(z[32 * count : 32 * count + count], x[32 * count : 32 * count + count])


@target
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.covering
def test_masked_scalars(name: str, target: Target) -> None:
    d = dtype(name)
    b = Builder()
    with b.phase(const(4), ()) as phase:
        on = b.op("lt", phase.item, b.const(2))
        at = b.op("select", on, phase.item, b.const(FAR))
        x = b.load(param(0, d), at, 1, on)
        b.store(param(1, d), phase.item, x)
        b.store(param(2, d), at, x, on)
    program = Program("scalars", tuple(Param(p, d, (4,), "in") for p in "xyz"), (), [phase])
    x, y, z = ones(name, 4), ones(name, 4), ones(name, 4)[::-1].copy()
    kept = z.copy()
    run(program, [x, y, z], target=target)
    assert y.tobytes() == np.concatenate([x[:2], np.zeros(2, x.dtype)]).tobytes()
    assert z.tobytes() == np.concatenate([x[:2], kept[2:]]).tobytes()


@pytest.mark.many
@target
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.covering
def test_gather_and_scatter(name: str, masked: bool, target: Target) -> None:
    d, lanes = dtype(name), 8
    order = np.random.default_rng(3).permutation(64).astype("int64")
    keep = np.arange(64) % 3 != 0
    b = Builder()
    with b.phase(const(8), ()) as phase:
        at = b.op("mul", phase.item, b.const(lanes))
        mask = b.load(param(4, bool_), at, lanes) if masked else None
        where = b.load(param(3, int64), at, lanes)
        if mask is not None:
            where = b.op("select", mask, where, b.const(FAR, int64, lanes))
        b.store(param(1, d), at, b.gather(param(0, d), where, mask))
        b.store(param(2, d), where, b.load(param(0, d), at, lanes), mask)
    params = (*(Param(p, d, (64,), "in") for p in "xyz"), Param("i", int64, (64,), "in"), Param("m", bool_, (64,), "in"))
    x, y, z = ones(name, 64), ones(name, 64), np.zeros(64, dtype(name).np)
    run(Program("gather", params, (), [phase]), [x, y, z, order, keep], target=target)
    mask_ = keep if masked else np.ones(64, bool)
    assert y.tobytes() == np.where(mask_, x[order], np.zeros_like(x)).tobytes()
    want = np.zeros_like(z)
    want[order[mask_]] = x[mask_]
    assert z.tobytes() == want.tobytes()


def test_bools_are_bytes_and_any_byte_but_zero_is_true() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        x = b.load(param(0, bool_), b.const(0), 8)
        b.store(param(1, bool_), b.const(0), b.op("not", x))
        b.store(param(1, bool_), b.const(8), b.op("not", b.load(param(0, bool_), b.const(1))))
    x, y = np.array([0, 1, 2, 255, 0, 0, 128, 1], np.uint8), np.full(9, 7, np.uint8)
    run(Program("bools", (Param("x", bool_, (8,), "in"), Param("y", bool_, (9,), "out")), (), [phase]), [x, y])
    np.testing.assert_array_equal(y, [1, 0, 0, 0, 1, 1, 0, 0, 0])


def test_offsets_scratch_and_workspace() -> None:
    work = Mem("work", 64, float32, align=4)
    b = Builder()
    with b.phase(const(4), ()) as first:
        x = b.load(replace(param(0, float32), offset=3), first.item)
        b.store(Mem("scratch", 128, float32, 5, 4), b.const(2), b.op("mul", x, x))
        b.store(work, first.item, b.load(Mem("scratch", 156, float32, 0, 4), b.const(0)))
    with b.phase(const(1), ()) as second:
        total = b.const(0.0, float32)
        with b.loop("i", b.const(0), b.const(4), 1, [total]) as loop:
            loop.yields = [b.op("add", loop.carried[0], b.load(work, loop.var))]
        b.store(param(1, float32), b.const(0), loop.results[0])
    program = Program(
        "spaces", (Param("x", float32, (7,), "in"), Param("y", float32, (1,), "out")), (), [first, second], scratch=256, work=128
    )
    x, y = np.arange(7, dtype="float32"), np.zeros(1, "float32")
    run(program, [x, y])
    assert y[0] == 9 + 16 + 25 + 36


def test_negative_and_symbolic_indices() -> None:
    n = sym("n", 1, 100)
    b = Builder()
    with b.phase(n, (n,)) as phase:
        (size,) = phase.vars
        back = b.op("sub", b.op("sub", size, b.const(1)), phase.item)
        b.store(param(1, int32), back, b.load(replace(param(0, int32), offset=-2), b.op("add", phase.item, b.const(2))))
    program = Program("reverse", (Param("x", int32, (n,), "in"), Param("y", int32, (n,), "out")), (n,), [phase])
    x, y = np.arange(37, dtype="int32"), np.zeros(37, "int32")
    run(program, [x, y], vars=[37], items=37)
    np.testing.assert_array_equal(y, x[::-1])


def copy(nt: bool) -> Program:
    b = Builder()
    with b.phase(const(4), ()) as phase:
        at = b.op("mul", phase.item, b.const(16))
        b.store(param(1, float32, nt=nt, align=64), at, b.load(param(0, float32), at, 16))
    return Program("copy", (Param("x", float32, (64,), "in"), Param("y", float32, (64,), "out")), (), [phase])


@pytest.mark.parametrize("name", ["cascadelake", "avx2", "x86-64-v2"])
def test_non_temporal_stores(name: str) -> None:
    t = targets.named(name)
    assert "movnt" in compile_for(t, render(copy(True), t))[0]
    assert "movnt" not in compile_for(t, render(copy(False), t))[0]


def test_storing_another_type_is_refused() -> None:
    b = Builder()
    with b.phase(const(1), ()) as phase:
        b.store(param(0, int32), b.const(0), b.const(1.0, float32))
    with pytest.raises(BuildError, match="cast it first"):
        render(Program("p", (Param("y", int32, (1,), "out"),), (), [phase]), HOST)


@pytest.mark.slow
@pytest.mark.parametrize("t", DISTINCT, ids=lambda t: t.name)
def test_masks_need_no_runtime_function(t: Target) -> None:
    for name in NAMES:
        d = dtype(name)
        b = Builder()
        with b.phase(const(1), ()) as phase:
            index = b.load(param(1, int64), b.const(0), 16)
            mask = b.op("lt", index, b.const(9, int64, 16))
            b.store(param(0, d), b.const(0), b.load(param(0, d), b.const(16), 16, mask), mask)
            b.store(param(0, d), index, b.gather(param(0, d), index, mask), mask)
        program = Program("masks", (Param("x", d, (64,), "out"), Param("i", int64, (16,), "in")), (), [phase])
        assert undefined(object_for(t, render(program, t))) == []


# Masks that are known lane by lane are plain accesses, where an instruction with a mask would be slow or missing.


@pytest.mark.parametrize(
    ("on", "parts"),
    [("1111", [(0, 4)]), ("1110", [(0, 2), (2, 1)]), ("0111", [(1, 2), (3, 1)]), ("1011", [(0, 1), (2, 2)]), ("0000", [])],
)
def test_runs_of_lanes_are_cut_into_powers_of_two(on: str, parts: list[tuple[int, int]]) -> None:
    assert mask_pieces([c == "1" for c in on]) == parts


def doubled(n: int, dtype: str) -> Kernel:
    """Twice each element of rows that end within a vector."""
    kb = KernelBuilder("doubled")
    i, j = kb.axis("m", 3), kb.axis("n", n)
    x = kb.input("x", (3, n), dtype)
    kb.store("y", dtype, (3, n), (i, j), x[i, j] + x[i, j])
    return kb.build()


@pytest.mark.parametrize(
    ("name", "dtype", "n", "opts", "instruction"),
    [
        ("avx2", "float32", 20, "Un8", "vmaskmov"),  # four lanes are one store
        ("avx2", "int8", 55, "Un32", "vpextrb"),  # 23 bytes are four, and the last alone
        ("v2", "float32", 7, "Un4", "maskmov"),
        ("v4", "float32", 56, "Un16", "{%k"),  # a run that is a power of two needs no register of masks either
    ],
)
def test_a_ragged_end_is_stored_as_it_is(name: str, dtype: str, n: int, opts: str, instruction: str) -> None:
    target, kernel = targets.named(name), doubled(n, dtype)
    text = render(lower(apply(kernel, parse(opts), target)), target).text
    assert "llvm.masked" not in text
    assert assembly_of(text, target).count(instruction) <= (instruction == "vpextrb")
    check_twin(kernel, parse(opts), target)
    check_compiled(kernel, parse(opts))


def test_the_largest_of_what_meets_is_stored_without_a_mask() -> None:
    """LLVM makes a store under a mask of a choice between what is computed and what lies there."""
    kb = KernelBuilder("largest")
    i, j = kb.axis("m", 7), kb.axis("n", 20)
    x, at = kb.input("x", (7, 20), "float32"), kb.input("at", (7,), "int32", range=(0, 4))
    kb.store("y", "float32", (5, 20), (i, j), x[i, j], (at[i].cast("int64"), j), combine="max")
    kernel, target = kb.build(), targets.named("avx2")
    for opts in ("Un4", "Un8", "Un20"):
        text = render(lower(apply(kernel, parse(opts), target)), target).text
        assert "vmaxps" in assembly_of(text, target)
        assert "vmaskmov" not in assembly_of(text, target)


# Updates of memory as processors want them: addresses in one register where they guess by an address's registers, and
# choices made before they are stored where masked stores are slow.


N, V = 1000, 64
BARRIER = 'asm ""'


def counts(computed: bool = True) -> Kernel:
    """How often each number occurs in some, or in what is `computed` of them."""
    kb = KernelBuilder("counts")
    i = kb.axis("n", N)
    x = kb.input("x", (N,), int32, range=(0, V - 1))
    kb.store("y", int32, (V,), (i,), 1, (cast((x[i] * 5) & (V - 1), "int64") if computed else x[i],), combine="add")
    return kb.build()


@pytest.mark.parametrize(("name", "kept"), [("znver4", True), ("znver5", False), ("cascadelake", False)])
def test_addresses_are_kept_whole_where_they_are_guessed_by_registers(name: str, kept: bool) -> None:
    target = targets.named(name)
    text = render(lower(apply(counts(), parse("Un8"), target)), target).text
    assert text.count(BARRIER) == (8 if kept else 0)


@pytest.mark.parametrize("opts", ["(none)", "Ky1x8 Un8"])
def test_only_what_lanes_say_is_kept_whole(opts: str) -> None:
    """One point at a time has its index in a register, as those have that are read from memory; copies (SPLIT) are cleared and
    combined at places that loops count."""
    target = targets.named("znver4")
    text = render(lower(apply(counts(), parse(opts), target)), target).text
    assert text.count(BARRIER) == (0 if opts == "(none)" else 8)
    read = render(lower(apply(counts(False), parse("Un8"), target)), target).text
    assert BARRIER not in read


def test_indices_whose_parts_are_used_twice_are_looked_at_once() -> None:
    """A hash of many steps has two ways from each to the one before: as many ways in all as numbers of so many bits."""
    kb = KernelBuilder("hashed")
    i = kb.axis("n", N)
    h = kb.input("x", (N,), int32, range=(0, V - 1))[i]
    for _ in range(60):
        h = h * h + h
    kb.store("y", int32, (V,), (i,), 1, (maximum(minimum(cast(h, "int64"), V - 1), 0),), combine="add")
    target = targets.named("znver4")
    assert BARRIER not in render(lower(apply(kb.build(), (), target)), target).text


@pytest.mark.parametrize("opts", ["Un8", "Un32", "Ky1x8 Un16", "Ky2x4 Un8"])
def test_updates_count_every_point(opts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets.Target, "guesses_by_registers", property(lambda t: t.lang == "llvm"))
    x = np.random.default_rng(0).integers(0, V, N).astype(np.int32)
    target = targets.host()
    assert BARRIER in render(lower(apply(counts(), parse(opts), target)), target).text
    np.testing.assert_array_equal(best(counts(), opts=opts, threads=1)(x), np.bincount(x * 5 % V, minlength=V))


def largest(dtype: DType) -> Kernel:
    """The largest numbers of the rows of each segment."""
    kb = KernelBuilder("largest")
    i, j = kb.axis("n", 100), kb.axis("d", 64)
    x, at = kb.input("x", (100, 64), dtype), kb.input("at", (100,), int32, range=(0, 7))
    kb.store("y", dtype, (8, 64), (i, j), x[i, j], indices=(at[i], j), combine="max")
    return kb.build()


@pytest.mark.parametrize(("name", "kept"), [("znver3", 4), ("znver4", 0), ("v3", 0)])
def test_choices_are_made_before_they_are_stored_where_masked_stores_are_slow(name: str, kept: int) -> None:
    target = targets.named(name)
    text = render(lower(apply(largest(float32), parse("Ud32"), target)), target).text
    assert text.count(BARRIER) == kept


@pytest.mark.parametrize("dtype", [float32, float64, int32])
@pytest.mark.parametrize("opts", ["Ud2", "Ud4", "Ud16", "Ud64"])
@pytest.mark.covering
def test_choices_are_right(dtype: DType, opts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of any width, of which those that fill no register go their old way."""
    monkeypatch.setattr(targets.Target, "stores_slowly_by_masks", property(lambda t: t.lang == "llvm"))
    rng = np.random.default_rng(0)
    x, at = rng.integers(-50, 50, (100, 64)).astype(dtype.np), rng.integers(0, 8, 100).astype(np.int32)
    expected = np.stack([x[at == k].max(axis=0) for k in range(8)])
    np.testing.assert_array_equal(best(largest(dtype), opts=opts, threads=1)(x, at), expected)


@pytest.mark.parametrize(("name", "kept"), [("v4", 1), ("v3", 0), ("neon", 0)])
def test_elements_that_are_broadcast_side_by_side_have_one_register_of_an_address(name: str, kept: int) -> None:
    """All rows of a register tile are read from one pointer; few rows, and rows that two vectors share, are left to LLVM."""
    target, product = targets.named(name), make("matmul", {"m": 64, "n": 64, "k": 64})
    texts = [render(lower(apply(product, parse(tile), target)), target).text for tile in ("Um8 Un16", "Um2 Un16", "Um8 Un32")]
    assert [t.count(BARRIER) for t in texts] == [kept, 0, 0]


@pytest.mark.parametrize(("name", "kept"), [("v4", 1), ("v3", 0), ("neon", 0)])
def test_elements_that_are_too_many_for_the_registers_are_read_in_the_loop(name: str, kept: int) -> None:
    """48 rows and steps, whose sums are held by columns, would lie on the stack; 16 fit in registers."""
    target, product = targets.named(name), make("matmul", {"m": 12, "n": 64, "k": 30})
    tiles = [parse(tile) for tile in ("Um12 Un16 Rk4 Mk<n", "Um4 Un16 Rk4 Mk<n")]
    assert [render(lower(apply(product, tile, target)), target).text.count("asm sideeffect") for tile in tiles] == [kept, 0]
    a, b = (np.arange(m * n, dtype=np.float32).reshape(m, n) % 7 for m, n in ((12, 30), (30, 64)))
    for tile in tiles:
        np.testing.assert_array_equal(best(product, opts=tile, threads=1)(a, b), a @ b)


# LLVM is not trusted: every operation, on every type, under masks of every length, at every level of this processor,
# against the interpreter, bit for bit. `make test` takes a part. `make test-thorough` takes all of it, once for each
# version of LLVM (`support/passed.py`).


FAULT = Path(__file__).parent / "llvm_faults" / "division_of_idle_lanes.ll"
FAULTY = (20, 21, 22)
"""Versions of LLVM with that fault."""
LANES = (
    "renderers/llvm", "interp/generated_python.py", "interp/ops.py", "program/ops.py", "program/builder.py", "lower/arithmetic",
    "devices/cpu/engine.py", "tests/support/every_op.py", "tests/support/idle_lanes.py", "tests/support/lane_operations.py",
)  # fmt: skip
"""What decides how a lane is computed, natively and by the interpreter: where it changes, all is checked again."""
TAILS = (*LANES, "lower", "opts", "heuristics", "tests/support/idle_tails.py")
SHARE = 16
"""One in so many of what is done with results is tried each time."""


def lowered(level: str) -> Target:
    """This processor as one of a level; DeviceError where it lacks something."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TILEWRIGHT_TARGET", level)
        return targets.host()


def usable() -> list[str]:
    """The levels that this processor has."""
    found = []
    for level in ("v2", "v3", "v4"):
        try:
            found.append(lowered(level).name and level)
        except DeviceError:
            continue
    return found or ["host"]


LEVELS = usable()
levels = pytest.mark.parametrize("level", LEVELS)
types = pytest.mark.parametrize("name", TYPES)


def width(target: Target, name: str) -> int:
    """Lanes of one register, two at least."""
    return max(2, target.vector_bytes // (4 if name == "bool" else dtype(name).compute.size))


def part(target: Target, name: str, lanes: int, share: int = SHARE) -> Bench:
    """A part of what can be done: masks in turns, and of the things that are done with a result one in so many."""
    at, some = TYPES.index(name) + lanes, masks(lanes, few=True)
    return idle_lanes.bench(
        dtype(name), lanes, some[at % len(some) :] + some[: at % len(some)], target.features, lambda op, n: (n + at + len(op)) % share == 0
    )


def everything(target: Target, name: str, lanes: int, few: bool) -> list[Bench]:
    """All masks one by one; what harms no other lane has a fourth of what is done with results each time."""

    def chosen(k: int) -> Callable[[str, int], bool]:
        return lambda op, n: dangerous(op) or (n + k) % 4 == 0

    return [idle_lanes.bench(dtype(name), lanes, [mask], target.features, chosen(k)) for k, mask in enumerate(masks(lanes, few))]


@levels
@types
@pytest.mark.parametrize("registers", [1, 2])
@pytest.mark.covering
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_idle_lanes_are_what_they_are(level: str, name: str, registers: int, request: pytest.FixtureRequest) -> None:
    target = lowered(level)
    lanes, case = registers * width(target, name), f"lanes-{level}-{name}-{registers}"
    thorough = request.config.getoption("--thorough") and not passed.known(case, *LANES)
    for k, bench in enumerate(everything(target, name, lanes, few=registers > 1) if thorough else [part(target, name, lanes)]):
        found = idle_lanes.differences(bench, target, seed=k)
        assert not found, f"{len(found)} rows differ:\n" + "\n".join(found[:20])
    if thorough:
        passed.note(case, *LANES)


@types
@pytest.mark.skipif(bool(aarch64.missing()), reason=aarch64.missing())
@pytest.mark.covering(each=5)
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_idle_lanes_of_neon(name: str, request: pytest.FixtureRequest) -> None:
    target, case = aarch64.NEON, f"lanes-neon-{name}"
    lanes = width(target, name)
    thorough = request.config.getoption("--thorough") and not passed.known(case, *LANES)
    for k, bench in enumerate(everything(target, name, lanes, few=False) if thorough else [part(target, name, lanes)]):
        got, want = (bench.arrays(k, [i % 3 > 0 for i in range(lanes)]) for _ in range(2))
        aarch64.run(bench.program, got, [lanes // 2])
        Interpreter(bench.program).run(want, [lanes // 2])
        found = idle_lanes.rows_that_differ(bench, got, want)
        assert not found, f"{len(found)} rows differ:\n" + "\n".join(found[:20])
    if thorough:
        passed.note(case, *LANES)


@types
@pytest.mark.covering(each=5)
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_the_c_compiler_agrees(name: str, request: pytest.FixtureRequest) -> None:
    try:
        cc.find()
    except DeviceError as e:
        pytest.skip(str(e))
    target = replace(lowered(LEVELS[-1]), lang="c")
    share = 4 if request.config.getoption("--thorough") else 3 * SHARE
    found = idle_lanes.differences(part(target, name, width(target, name), share), target, seed=1)
    assert not found, f"{len(found)} rows differ:\n" + "\n".join(found[:20])


@levels
@pytest.mark.parametrize("name", idle_tails.TYPES)
@pytest.mark.covering
@pytest.mark.many
@pytest.mark.timeout(1800)
def test_tails_of_rows(level: str, name: str, request: pytest.FixtureRequest) -> None:
    target, d, case = lowered(level), dtype(name), f"tails-{level}-{name}"
    lanes, makes, at = target.lanes(d), [*idle_tails.operations(d)], idle_tails.TYPES.index(name)
    thorough = request.config.getoption("--thorough") and not passed.known(case, *TAILS)
    pairs = [(tail, op) for tail in range(1, lanes + 1) for op in makes]
    if not thorough:
        pairs = [(1 + at % lanes, "quotient"), (lanes // 2, makes[at % len(makes)])]
    for tail, op in pairs:
        kernel = idle_tails.tails(d, op, 4 * lanes + tail)
        for opts in idle_tails.schedules(kernel, target, lanes, steps=int(tail <= 3 and thorough)):
            assert not idle_tails.differences(kernel, opts, target, tail)
    if thorough:
        passed.note(case, *TAILS)


def test_no_operation_is_left_out() -> None:
    """But for those that no expression over elements is made of."""
    features = frozenset({"fma", "avx512"})
    made = [idle_lanes.bench(dtype(name), 4, [(True,) * 4], features, lambda op, n: True) for name in ("float32", "int32", "bool")]
    tried = {s.op for b in made for phase in b.program.phases for s in statements(phase.body) if isinstance(s, Instr)}
    pure = {name for name in RENDERED - TWIN_ONLY if OPS[name].effect == "pure"}
    assert pure - tried == {"aligned", "apart", "dot", "insert", "exp2", "root_guess"}


@levels
def test_the_fault_of_llvm(level: str) -> None:
    """`llvm_faults/division_of_idle_lanes.ll`: versions that have it, and that what is rendered instead is right in all."""
    target, code = lowered(level), FAULT.read_text()
    made = Code([compile_text(code, target, native=True)], ("quotients", "mended"))
    x, y = np.array([1, 6], np.float32), np.array([4, 3], np.float32)
    out = {name: idle_lanes.called(made, name, x, y) for name in ("quotients", "mended")}
    made.close()
    assert out["mended"].tolist() == [0.25, 2, 0, 0]
    faulty = bool(np.isnan(out["quotients"][2:]).all())
    major = llvm.llvm_version_info[0]
    assert faulty == (major in FAULTY), (
        f"LLVM {major} {'has' if faulty else 'no longer has'} the fault of {FAULT.name}: say so in FAULTY. Where no version that "
        "pyproject.toml allows has it, renderers/llvm/division.py may divide vectors by fdiv again"
    )


@levels
@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.many
def test_sums_of_quotients(level: str, name: str) -> None:
    """Positive numbers, so that no NaN is right, in rows that leave so many elements for the last vector."""
    target, d = lowered(level), dtype(name)
    lanes = target.lanes(d)
    for left in {1, 2, lanes // 2, lanes - 1} - {0}:
        kernel = idle_tails.quotients(d, 4 * lanes + left)
        for opts in idle_tails.schedules(kernel, target, lanes):
            assert not idle_tails.differences(kernel, opts, target, seed=left, positive=True)
