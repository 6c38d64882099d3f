"""The cpu device: building, loading, refusing, running, timing."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import threading

import guarded
import numpy as np
import pytest
from device_kernels import COUNT, MARK, phase, program, source
from tilewright import targets
from tilewright.devices import Device, Executable
from tilewright.devices.cpu.device import CpuDevice
from tilewright.ir import BuildError, DeviceError, UsageError, sym


def load(cpu: Device, text: object, threads: int = 1) -> Executable:
    return cpu.load(cpu.build(text), text.signature, threads)  # type: ignore[attr-defined, arg-type]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("items", [0, 1, 2, 3, 100, 4097])
@pytest.mark.covering
def test_every_item_runs_exactly_once(cpu: Device, threads: int, items: int) -> None:
    a = guarded.array(np.zeros(items + 1, np.int64))
    exe = load(cpu, source(items=items), threads)
    for n in range(1, 4):
        exe.run([a.ctypes.data])
        assert (a[:-1] == n).all() and a[-1] == 0


def test_building_is_pure(cpu: Device) -> None:
    assert cpu.build(source()) == CpuDevice().build(source())


def test_parse_errors_say_what_llvm_said(cpu: Device) -> None:
    with pytest.raises(BuildError, match=r"(?s)LLVM rejects the source.*expected"):
        cpu.build(program(["define void @k_p0(ptr %bufs) { this is no IR }"], [1]))


def test_verifier_errors_are_build_errors(cpu: Device) -> None:
    text = (
        "define void @k_p0(ptr %b, ptr %v, ptr %s, i64 %lo, i64 %hi) {\nentry:\n  %x = add i64 %y, 1\n  %y = add i64 %x, 1\n  ret void\n}"
    )
    with pytest.raises(BuildError, match=r"(?s)LLVM rejects the source.*dominate"):
        cpu.build(program([text], [1]))


def test_long_errors_are_cut(cpu: Device) -> None:
    body = "\n".join(f"  %x{i} = add i64 %x{i + 1}, 1" for i in range(50)) + "\n  %x50 = add i64 %lo, 1"
    text = f"define void @k_p0(ptr %b, ptr %v, ptr %s, i64 %lo, i64 %hi) {{\n{body}\n  ret void\n}}"
    with pytest.raises(BuildError) as e:
        cpu.build(program([text], [1]))
    assert len(str(e.value).splitlines()) <= 8


def test_undefined_symbols_are_build_errors(cpu: Device) -> None:
    body = phase("k_p0", "  %e = call double @exp(double 1.0)\n  %f = call i64 @no_such_thing(i64 1)")
    with pytest.raises(BuildError, match="exp, no_such_thing, which nothing provides"):
        cpu.build(program(["declare double @exp(double)\ndeclare i64 @no_such_thing(i64)", body], [1]))


def test_library_calls_that_llvm_inserts_are_build_errors(cpu: Device) -> None:
    """Arithmetic on half without the instructions becomes calls of functions nobody has: a crash if it were run."""
    body = phase("k_p0", "  %h = load bfloat, ptr %b0\n  %g = frem bfloat %h, %h\n  store bfloat %g, ptr %b0")
    with pytest.raises(BuildError, match="fmod"):
        cpu.build(program([body], [1]))


def test_a_missing_entry_is_a_build_error(cpu: Device) -> None:
    text = source(name="k")
    other = source(name="other")
    with pytest.raises(BuildError, match="does not define other_p0"):
        cpu.load(cpu.build(text), other.signature, 1)


@pytest.mark.parametrize(
    "damage", [lambda o: b"", lambda o: b"junk", lambda o: o[:-5], lambda o: o[:200] + b"\xff\xff" + o[202:], lambda o: o[30:]]
)
def test_damaged_objects_are_refused(cpu: Device, damage: object) -> None:
    text = source()
    with pytest.raises(BuildError, match="build it again"):
        cpu.load(damage(cpu.build(text)), text.signature, 1)  # type: ignore[operator]


def test_objects_for_other_machines_build_but_do_not_load(cpu: Device) -> None:
    here = targets.host()
    foreign = targets.named("neon" if here.arch == "x86_64" else "avx2")
    text = source(target=foreign)
    obj = cpu.build(text)
    with pytest.raises(DeviceError, match=rf"built for {foreign.name} and cannot run on this machine .*which is {here.arch}"):
        cpu.load(obj, text.signature, 1)


def test_code_with_features_that_this_machine_lacks_is_refused(cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    here = targets.host()
    if here.arch != "x86_64":
        pytest.skip("x86-64 features")
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    text = source(target=targets.named("sapphirerapids"))
    obj = cpu.build(text)
    monkeypatch.setattr(CpuDevice, "target", targets.named("avx2"))
    with pytest.raises(DeviceError, match="lacks avx512, avx512bf16, avx512popcnt, avx512vnni; build it for target 'host'"):
        CpuDevice().load(obj, text.signature, 1)


def test_code_beyond_what_a_lowered_machine_may_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_TARGET", raising=False)
    if "avx2" not in targets.host().features:
        pytest.skip("nothing to take away")
    cpu, text = CpuDevice(), source()
    obj, whole = cpu.build(text), cpu.fingerprint()
    monkeypatch.setenv("TILEWRIGHT_TARGET", "v2")
    with pytest.raises(DeviceError, match=r"which TILEWRIGHT_TARGET=v2 lowers: it may not use avx2, .*; build it for target 'host'"):
        cpu.load(obj, text.signature, 1)
    lowered = cpu.fingerprint()
    assert "lowered" not in whole and lowered["lowered"] == "TILEWRIGHT_TARGET=v2" and lowered["target"].endswith(":sse41")
    a = guarded.array(np.zeros(100, np.int64))
    load(cpu, source()).run([a.ctypes.data])
    assert (a == 1).all()


def test_other_languages_are_refused(cpu: Device) -> None:
    import dataclasses

    with pytest.raises(BuildError, match="builds LLVM IR, not cuda"):
        cpu.build(source(target=dataclasses.replace(targets.host(), lang="cuda")))


@pytest.mark.parametrize("threads", [0, -1, 100_000])
def test_impossible_thread_counts(cpu: Device, threads: int) -> None:
    text = source()
    with pytest.raises(DeviceError, match=f"{threads} threads: use 1 to"):
        cpu.load(cpu.build(text), text.signature, threads)


def test_elsewhere_than_linux_check_says_so(cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    text = source()
    obj = cpu.build(text)
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(DeviceError, match="works on Linux; here \\(darwin\\)"):
        cpu.load(obj, text.signature, 1)


def test_phases_run_in_order_through_the_workspace(cpu: Device) -> None:
    """Phase 0 writes i to the workspace; phase 1 reads it backwards, so an item that came too early would see something else."""
    n = 3000
    first = "  %p = getelementptr i64, ptr %b1, i64 %i\n  store i64 %i, ptr %p"
    second = f"""
  %j = sub i64 {n - 1}, %i
  %p = getelementptr i64, ptr %b1, i64 %j
  %x = load i64, ptr %p
  %o = getelementptr i64, ptr %b0, i64 %i
  store i64 %x, ptr %o
"""
    exe = load(cpu, program([phase("k_p0", first), phase("k_p1", second)], [n, n], work=8 * n), threads=2)
    a = guarded.array(np.zeros(n, np.int64))
    for _ in range(50):
        a[:] = -1
        exe.poison()
        exe.run([a.ctypes.data])
        assert (a == np.arange(n)[::-1]).all()


def test_symbolic_grids(cpu: Device) -> None:
    n, m = sym("n", 1, 1000), sym("m", 1, 1000)
    body = """
  %p = getelementptr i64, ptr %b0, i64 %i
  %v1 = getelementptr i64, ptr %vars, i64 1
  %x = load i64, ptr %v1
  store i64 %x, ptr %p
"""
    exe = load(cpu, source(body, items=(n + 7) // 8, symbols=("n", "m")), threads=2)
    for value in (1, 8, 9, 800, 9):
        a = guarded.array(np.zeros(200, np.int64))
        exe.run([a.ctypes.data], (value, 42))
        assert (a == 42).sum() == -(-value // 8)
    del m
    with pytest.raises(UsageError, match=r"needs a value for each of its symbols \(n, m\), not 1"):
        exe.run([0], (3,))


def test_the_number_of_buffers_is_checked(cpu: Device) -> None:
    exe = load(cpu, source())
    with pytest.raises(UsageError, match="k takes 1 buffers, not 2"):
        exe.run([0, 0])
    with pytest.raises(UsageError, match="at least one set"):
        exe.time([], (), 3)


def test_scratch_is_poisoned_aligned_and_one_for_each_worker(cpu: Device) -> None:
    read = """
  %p = getelementptr i64, ptr %b0, i64 %i
  %last = getelementptr i8, ptr %scratch, i64 992
  %x = load i64, ptr %last
  store i64 %x, ptr %p
  store i64 7, ptr %last
"""
    a = guarded.array(np.zeros(1, np.int64))
    exe = load(cpu, source(read, items=1, scratch=1000))
    exe.poison()
    exe.run([a.ctypes.data])
    assert a[0] == -1
    exe.run([a.ctypes.data])
    assert a[0] == 7
    exe.poison()
    exe.run([a.ctypes.data])
    assert a[0] == -1
    seen: set[int] = set()
    marks = guarded.array(np.zeros(64, np.int64))
    both = load(cpu, source(MARK, items=64, scratch=1000), threads=2)
    for _ in range(20):
        both.run([marks.ctypes.data])
        seen |= set(marks.tolist())
    assert len(seen) <= 2 and all(s % 64 == 0 for s in seen)
    if cpu.threads > 1:
        assert len(seen) == 2, "the worker never helped"
        assert max(seen) - min(seen) >= 1000


def test_bound_calls_do_the_same(cpu: Device) -> None:
    exe = load(cpu, source(items=sym("n", 1, 100) * 2, symbols=("n",)))
    call = exe.bind((4,))
    a = guarded.array(np.zeros(16, np.int64))
    call(a.ctypes.data)
    call(a.ctypes.data)
    assert a.tolist() == [2] * 8 + [0] * 8


def test_timing_rotates_the_sets_and_counts_calls(cpu: Device) -> None:
    exe = load(cpu, source())
    arrays = [guarded.array(np.zeros(100, np.int64)) for _ in range(3)]
    seconds = exe.time([[a.ctypes.data] for a in arrays], (), repeats=8, limit_s=60)
    assert len(seconds) == 8 and all(0 <= s < 60 for s in seconds)
    assert [int(a[0]) for a in arrays] == [3, 3, 2]


def test_timing_stops_at_its_limit_but_makes_one_call(cpu: Device) -> None:
    exe = load(cpu, source(MARK, items=50))
    a = guarded.array(np.zeros(50, np.int64))
    assert len(exe.time([[a.ctypes.data]], (), 1000, 0.0)) == 1
    some = exe.time([[a.ctypes.data]], (), 100_000, 0.05)
    assert 1 <= len(some) < 100_000 and sum(some) - some[-1] <= 0.05


def test_many_python_threads_at_once(cpu: Device) -> None:
    """Callers share neither scratch nor workspace; the pool serves one of them, the others run their items themselves."""
    n = 512
    through_scratch = """
  store i64 %i, ptr %scratch
  %p = getelementptr i64, ptr %b1, i64 %i
  %x = load volatile i64, ptr %scratch
  %a = load i64, ptr %b0
  %y = add i64 %x, %a
  store i64 %y, ptr %p
"""
    back = """
  %p = getelementptr i64, ptr %b1, i64 %i
  %x = load i64, ptr %p
  %o = getelementptr i64, ptr %b0, i64 %i
  store i64 %x, ptr %o
"""
    exe = load(cpu, program([phase("k_p0", through_scratch), phase("k_p1", back)], [n, n], scratch=8, work=8 * n), threads=2)
    wrong: list[str] = []

    def caller(base: int) -> None:
        for _ in range(200):
            a = guarded.array(np.full(n, base, np.int64))
            exe.run([a.ctypes.data])
            if not (a == np.arange(n) + base).all():
                wrong.append(f"caller {base}")

    callers = [threading.Thread(target=caller, args=(1000 * c,)) for c in range(6)]
    for t in callers:
        t.start()
    for t in callers:
        t.join()
    assert not wrong


def test_a_closed_executable_refuses(cpu: Device) -> None:
    exe = load(cpu, source())
    exe.close()
    with pytest.raises(UsageError, match="has been closed"):
        exe.run([0])


def test_a_crash_kills_only_the_child_that_runs_it(cpu: Device) -> None:
    exe = load(cpu, source("  store i64 1, ptr null", items=64), threads=2)
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        exe.run([0])
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGSEGV


def test_the_fingerprint_is_json_and_names_the_processor(cpu: Device) -> None:
    import json

    print_ = json.loads(json.dumps(cpu.fingerprint()))
    assert print_["cpu"] and print_["target"] == targets.host().key and print_["l2"] == targets.host().l2
    assert cpu.compiler_id().startswith("llvmlite-") and print_["compiler"] == cpu.compiler_id()


def test_arguments_may_be_plain_ctypes_memory(cpu: Device) -> None:
    memory = (ctypes.c_int64 * 100)()
    load(cpu, source(COUNT)).run([ctypes.addressof(memory)])
    assert list(memory) == [1] * 100
