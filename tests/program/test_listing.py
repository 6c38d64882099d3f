"""Program text: readable, deterministic, and independent of how many Vals were made before."""

from __future__ import annotations

from tilewright.ir.dtypes import bool_, float32, index
from tilewright.ir.node import const, sym
from tilewright.program.builder import Builder
from tilewright.program.listing import locate, show
from tilewright.program.program import Mem, Param, Program, statements


def example(waste=0):
    n = sym("n", 1, 64)
    b = Builder()
    x, y, tile = Mem("param", 0, float32, 2, align=4), Mem("param", 1, float32, align=4, nt=True), Mem("scratch", 64, float32, align=64)
    with b.phase(n * 2, (n,)) as phase:
        for i in range(waste):
            b.const(float(i) + 0.25, float32)
        at = b.op("mul", phase.item, b.const(4))
        with b.loop("k.0", b.const(0), phase.vars[0], 2, [b.const(0.0, float32, 4)]) as loop:
            on = b.op("lt", b.const((0, 1, 2, 3), index, 4), b.splat(loop.var, 4))
            v = b.load(x, at, 4, on)
            b.store(tile, b.const(0), v)
            loop.yields = [b.op("fma", v, b.const(0.1, float32, 4), loop.carried[0])]
        with b.when(b.op("eq", phase.item, b.const(0))):
            b.store(y, b.op("idiv", at, attr=2), b.shuffle(loop.results[0], v, (0, 5)), b.const(True, bool_, 2))
    return Program("example", (Param("x", float32, (n, 4), "in"), Param("y", float32, (n, 8), "out")), (n,), [phase], scratch=128)


TEXT = """\
program example
  in x: float32[n, 4]
  out y: float32[n, 8]
  symbol n in 1..64
  scratch 128 bytes
phase 0: n*2 items
  %0: int64 = %item * 4
  %1: int64x4 = (0, 1, 2, 3)
  for %2 = 0 to %n step 2 [k.0] carry %3: float32x4 = 0:
    %4: int64x4 = splat %2
    %5: boolx4 = %1 < %4
    %6: float32x4 = load x[%0 + 2] if %5
    store scratch@64:float32[0] = %6 align 64
    %7: float32x4 = fma %6, 0.1, %3
    yield %7
  -> %8
  %9: bool = %item == 0
  %10: int64 = %0 // 2
  if %9:
    %11: float32x2 = shuffle %8, %6, lanes 0, 5
    store y[%10] = %11 if True nt
"""


def test_text():
    assert show(example()) == TEXT


def test_numbers_do_not_depend_on_unused_constants():
    assert show(example(waste=5)) == TEXT


def test_locate_finds_each_statement():
    program = example()
    stores = [s for s in statements(program.phases[0].body) if getattr(s, "op", "") == "store"]
    assert [locate(program, s) for s in stores] == ["store scratch@64:float32[0] = %6 align 64", "store y[%10] = %11 if True nt"]


def test_two_phases_number_separately():
    b = Builder()
    phases = []
    for _ in range(2):
        with b.phase(const(2), ()) as phase:
            b.store(Mem("param", 0, float32), b.op("mul", phase.item, b.const(3)), b.const(1.0, float32))
        phases.append(phase)
    text = show(Program("p", (Param("y", float32, (6,), "out"),), (), phases))
    first, second = text.split("phase 1")
    assert "%0: int64 = %item * 3" in first and "%0: int64 = %item * 3" in second


def test_alignment_test_names_its_parameter():
    b = Builder()
    with b.phase(const(1), ()) as phase, b.when(b.aligned(0, 64)):
        b.store(Mem("param", 0, float32), b.const(0), b.const(1.0, float32))
    text = show(Program("p", (Param("y", float32, (1,), "out"),), (), [phase]))
    assert "  %0: bool = aligned y to 64 bytes\n  if %0:\n    store y[0] = 1\n" in text


def test_groups_of_threads():
    b, tile = Builder(), Mem("shared", 16, float32, align=4)
    with b.phase(const(3), (), 64) as phase:
        b.store(tile, phase.thread, b.shfl_xor(b.load(Mem("param", 0, float32), phase.thread), 4))
        b.barrier()
        b.store(Mem("param", 1, float32), phase.thread, b.load(tile, b.op("xor", phase.thread, b.const(1))))
    program = Program(
        "p", (Param("x", float32, (64,), "in"), Param("y", float32, (64,), "out")), (), [phase], shared=272, align=16, regs=128
    )
    want = """\
program p
  in x: float32[64]
  out y: float32[64]
  shared 272 bytes
  parameters aligned to 16 bytes
  at most 128 registers a thread
phase 0: 3 items of 64 threads
  %0: float32 = load x[%thread]
  %1: float32 = shfl_xor %0, distance 4
  store shared@16:float32[%thread] = %1
  barrier
  %2: int64 = xor %thread, 1
  %3: float32 = load shared@16:float32[%2]
  store y[%thread] = %3
"""
    assert show(program) == want
