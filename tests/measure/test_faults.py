"""Candidates that misbehave in native code, on the real cpu device: each has its outcome, and the next candidate is measured."""

import platform
import time

import pytest
from measure_fakes import SYSCALL, built, count, double, endless, load_at, right, store_at, text
from tilewright.measure import Measurer, Outcome

MB = 1 << 20
needs_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls are written in x86-64 assembly")


@pytest.fixture(scope="module")
def m():
    with Measurer(double(), "cpu", 1, builders=1, deadline_s=1.0, memory_limit=256 * MB) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def good():
    return built(text(), "good")


def syscall(*numbers):
    values = ", ".join(f"i64 {n}" for n in (*numbers, *[0] * (7 - len(numbers))))
    return f"call i64 asm sideeffect {SYSCALL}({values})"


def allocate():
    # mmap(0, 64 MB, read|write, private|anonymous|populate) for ever; the refusal is stored to, as a program without checks would
    return endless(f"  %got = {syscall(9, 0, 64 * MB, 3, 0x8022, -1, 0)}\n  %at = inttoptr i64 %got to ptr\n  store volatile i8 1, ptr %at")


CASES = {
    "endless loop": (text(endless()), Outcome.timeout, "did not return within 1 s"),
    "null store": (text("  store volatile i32 1, ptr null"), Outcome.crash, "killed by SIGSEGV"),
    "trap": (text("  call void @llvm.trap()"), Outcome.crash, "killed by SIG"),
    "write one past the end": (text(store_at(5000)), Outcome.crash, "killed by SIGSEGV"),
    "write far past the end": (text(store_at(6000)), Outcome.crash, "killed by SIGSEGV"),
    "write one before the start": (text(store_at(-1)), Outcome.wrong, "wrote outside y, before its start"),
    "write a page before the start": (text(store_at(-1200)), Outcome.crash, "killed by SIGSEGV"),
    "read one past the end": (text(load_at(5000)), Outcome.crash, "killed by SIGSEGV"),
    "read one before the start": (text(load_at(-1)), Outcome.crash, "killed by SIGSEGV"),
    "write to an input": (text(store_at(0, base="%x")), Outcome.crash, "killed by SIGSEGV"),
    "endless recursion": (
        text("  call void @double_p0(ptr %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi)\n  store volatile i32 1, ptr %scratch"),
        Outcome.crash,
        "killed by SIGSEGV",
    ),
}


@pytest.mark.many
@pytest.mark.parametrize("name", CASES)
def test_fault_has_its_outcome_and_costs_only_itself(m, good, name):
    ir, outcome, detail = CASES[name]
    before, bad, after = m.measure([good, built(ir, name, scratch=64), good])
    assert right(before, after), (before, after)
    assert bad.outcome is outcome and detail in bad.detail, bad
    assert bad.t_min is None and bad.opts == (name,) and bad.sha


@needs_x86
def test_exit_is_a_crash(m, good):
    bad, after = m.measure([built(text(f"  %got = {syscall(231, 3)}"), "exit"), good])
    assert (bad.outcome, bad.detail) == (Outcome.crash, "exited with code 3")
    assert right(after)


@needs_x86
def test_exit_with_zero_is_not_success(m, good):
    bad, after = m.measure([built(text(f"  %got = {syscall(231, 0)}"), "exit"), good])
    assert (bad.outcome, bad.detail) == (Outcome.crash, "exited with code 0")
    assert right(after)


@needs_x86
def test_allocating_without_end_is_refused_by_the_limit(m, good):
    bad, after = m.measure([built(text(allocate()), "allocate"), good])
    assert bad.outcome is Outcome.crash and bad.detail == "killed by SIGSEGV", bad
    assert right(after)


@pytest.mark.slow
def test_a_hang_from_the_second_call_on(m, good):
    # right when verified, endless when timed
    hang = count("%again = icmp ugt i32 %c, 0\n  br i1 %again, label %hang, label %out\nhang:\n  br label %hang\nout:")
    bad, after = m.measure([built(text(hang, head="@calls = internal global i32 0"), "late hang"), good])
    assert bad.outcome is Outcome.timeout and right(after)


@pytest.mark.slow
def test_a_hang_costs_less_where_an_incumbent_is_known(good):
    with Measurer(double(), "cpu", 1, builders=1, deadline_s=60.0) as m:
        assert m.measure([good])[0].ok
        begin = time.monotonic()
        (bad,) = m.measure([built(text(endless()), "hang")], incumbent_s=1e-5)
        assert bad.outcome is Outcome.timeout and time.monotonic() - begin < 50, "the deadline is 60 s"


def test_code_that_cannot_be_linked_is_a_build_failure(m, good):
    import dataclasses

    bad, after = m.measure([dataclasses.replace(good, obj=b"not an object"), good])
    assert bad.outcome is Outcome.build and "not a whole object" in bad.detail
    assert right(after)
