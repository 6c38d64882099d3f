"""Measuring right candidates: incumbents, confirmation, duels, lost runners, and what is left behind at the end."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
from measure_fakes import N, built, count, double, endless, right, text
from tilewright import named_kernels
from tilewright.ir import MeasureError
from tilewright.measure import Measurer, Outcome
from tilewright.measure.processes.process import Stillness
from tilewright.opts import parse

SLOW_ONE = """define internal float @one(float %v, i64 %i) noinline {
entry:
  br label %l
l:
  %k = phi i64 [0, %entry], [%k1, %l]
  %a = phi float [%v, %entry], [%b, %l]
  %b = fdiv float %a, 1.0
  %k1 = add i64 %k, 1
  %c = icmp slt i64 %k1, 400
  br i1 %c, label %l, label %e
e:
  %r = fadd float %b, %b
  ret float %r
}"""
CALL = "call float @one(float %v, i64 %i)"
HERE = os.path.dirname(__file__)


@pytest.fixture(scope="module")
def m():
    with Measurer(double(), "cpu", 1, builders=1, deadline_s=5.0) as measurer:
        yield measurer


@pytest.fixture(scope="module")
def fast():
    return built(text(), "fast")


@pytest.fixture(scope="module")
def slow():
    return built(text(value=CALL, head=SLOW_ONE), "slow")


@pytest.mark.alone
@pytest.mark.slow
def test_a_candidate_three_times_slower_than_the_incumbent_is_timed_no_further(m, fast, slow):
    quick, first = m.measure([fast, slow])  # the incumbent follows the batch
    assert quick.ok and first.outcome is Outcome.slow
    # how many calls that takes is held by test_stats, whose clock nothing disturbs
    assert first.t_min > 3 * quick.t_min and first.error <= 1 and first.sha
    (alone,) = m.measure([slow])
    assert alone.ok and alone.n >= 3


def test_an_empty_batch(m):
    assert m.measure([]) == []


@pytest.mark.slow
def test_more_candidates_than_one_child_serves(m, fast):
    got = [r.outcome for r in m.measure([fast] * 40)]
    # a busy machine may make some look slow
    assert len(got) == 40 and set(got) <= {Outcome.ok, Outcome.slow} and Outcome.ok in got


@pytest.mark.slow
def test_a_winner_is_confirmed_on_other_inputs(m, fast):
    r = m.confirm(fast)
    assert r.ok and r.n >= 3 and r.error <= 1


@pytest.mark.slow
def test_outputs_are_hashed_where_asked_for(m, fast, slow):
    assert m.measure([fast])[0].outputs is None
    # within the bound, but of other bits
    inexact = built(text(value="fmul float %v, 0x4000000020000000"), "inexact")
    with Measurer(double(), "cpu", 1, builders=1, hash_outputs=True) as hashing:
        a, b, c, again = hashing.measure([fast, slow, inexact, fast])
    assert {x.outcome for x in (a, b, c)} <= {Outcome.ok, Outcome.slow} and a.outputs is not None
    assert a.outputs == b.outputs == again.outputs != c.outputs


def test_confirming_finds_what_random_inputs_hide(m):
    # right within the bound, but not exact on whole numbers: 2·x·(1 + 2⁻²³)
    sloppy = built(text(value="fmul float %v, 0x4000000020000000"), "sloppy")
    assert right(*m.measure([sloppy]))
    r = m.confirm(sloppy)
    assert r.outcome is Outcome.wrong and "y[" in r.detail


LAST_BIT = (
    "@calls = internal global i32 0\ndefine internal float @one(float %v, i64 %i) {\n  %c = load i32, ptr @calls\n  %odd = and i32 %c, 1\n"
    "  %w = fadd float %v, %v\n  %bits = bitcast float %w to i32\n  %nz = icmp ne i32 %bits, 0\n  %on = zext i1 %nz to i32\n  %flip = and i32 %odd, %on\n"
    "  %other = xor i32 %bits, %flip\n  %r = bitcast i32 %other to float\n  ret float %r\n}"
)


@pytest.mark.slow
@pytest.mark.parametrize("effects,outcome", [((), Outcome.wrong), (("NONDET",), Outcome.ok)])
def test_runs_that_differ_in_bits_are_found(effects, outcome):
    # every other call flips the last bit: within the bound, so only repeating shows it (gelu-like kernels have no exact inputs)
    from tilewright.ir import KernelBuilder, float32, tanh

    kb = KernelBuilder("double")
    i = kb.axis("i", N)
    x = kb.input("x", (N,), float32)
    kb.store("y", float32, (N,), (i,), x[i] * 2.0 + tanh(x[i]) * (x[i] * 0.0))
    unsteady = built(text(count(""), CALL, LAST_BIT), "unsteady", effects=effects)
    with Measurer(kb.build(), "cpu", 1, builders=1) as m:
        for r in (m.measure([unsteady])[0], m.confirm(unsteady)):
            assert r.outcome is outcome and ("two runs on the same inputs gave different bits: y[" in r.detail) == (
                outcome is Outcome.wrong
            ), r


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
def test_a_duel_finds_the_faster(fast, slow, threads):
    with Measurer(double(), "cpu", threads, builders=1) as m:
        d = m.duel(fast, slow, rounds=4)
        assert d.ratio < 0.5 and d.significant and d.t_a < d.t_b and d.rounds == 4
        d = m.duel(slow, fast, rounds=4)
        assert d.ratio > 2 and d.significant


@pytest.mark.slow
def test_a_duel_with_a_wrong_or_hanging_candidate_is_an_error(m, fast):
    with pytest.raises(MeasureError, match="the second candidate is wrong"):
        m.duel(fast, built(text(value="fadd float %v, 1.0"), "wrong"))
    with pytest.raises(MeasureError, match="did not return within"):
        m.duel(built(text(endless()), "hang"), fast)
    assert right(*m.measure([fast]))


@pytest.mark.slow
def test_an_interrupted_call_leaves_no_stale_answers(m, fast, slow):
    def interrupt(number, frame):
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            m.measure([fast, built(text(endless()), "hang"), slow])
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    (r,) = m.measure([fast])
    assert right(r) and r.opts == ("fast",)


@pytest.mark.slow
def test_confirmations_in_turn_keep_every_reference(m, fast, slow):
    for candidate in (fast, slow, fast):
        assert m.confirm(candidate).ok
        assert right(*m.measure([candidate]))


@pytest.mark.slow
def test_a_second_check_is_prepared_beside_the_search(fast):
    """In a process that stands still with the builders until it is asked; a lost one is replaced when it is needed."""
    with Measurer(double(), "cpu", 1, builders=1, deadline_s=5.0) as m:
        assert right(*m.measure([fast])) and m.second_left_s(7.0) == 7.0
        m.expect_confirm()
        second = m._second
        m.expect_confirm()
        assert m._second is second and os.getpgid(second.process.pid) == m._pool.group
        until = time.monotonic() + 240
        while m.second_left_s(1e9) and time.monotonic() < until:
            time.sleep(0.01)
        assert not second.preparing and len(second.prepared_s) == 3
        made, second.prepared_s = second.prepared_s, [*second.prepared_s[:2], None]  # as where there was no room for the last
        assert m.second_left_s(9.0) == pytest.approx(3.0)
        second.prepared_s = made
        first, checked = m._runner.process.pid, m.confirm(fast)
        assert checked.ok and checked.checks[:2] == ("whole", "special")
        assert os.getpgid(second.process.pid) == second.process.pid  # it may make the builders wait now
        second.process.kill()
        assert m.confirm(fast).ok and right(*m.measure([fast])) and m._runner.process.pid == first


@pytest.mark.slow
def test_what_a_lost_second_runner_was_to_prepare_will_all_be_made_again():
    with Measurer(double(), "cpu", 1, builders=1, deadline_s=5.0) as m:
        m.expect_confirm()
        os.kill(m._second.process.pid, signal.SIGSTOP)
        m._second.used_s = lambda: 5.0  # it had come so far
        assert m.second_left_s(7.0) == pytest.approx(2.0)
        os.kill(m._second.process.pid, signal.SIGKILL)
        until = time.monotonic() + 240
        while m.second_left_s(7.0) < 7.0 and time.monotonic() < until:
            time.sleep(0.01)
        assert m.second_left_s(7.0) == 7.0


@pytest.mark.slow
def test_a_lost_runner_is_replaced(m, fast):
    assert right(*m.measure([fast]))
    m._runner.process.kill()
    assert right(*m.measure([fast, fast]))


@pytest.mark.slow
def test_a_runner_that_stands_still_is_replaced(m, fast, monkeypatch):
    """Stopped, or in a lock that nobody will open: no message, no end, no processor time."""
    assert right(*m.measure([fast]))
    monkeypatch.setattr(m._runner, "longest_s", 1.5)
    os.kill(m._runner.process.pid, signal.SIGSTOP)
    assert right(*m.measure([fast]))


@pytest.mark.alone
def test_a_runner_that_works_is_not_still():
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy, subprocess.Popen(["sleep", "60"]) as idle:
        works, still = Stillness(busy.pid, 0.3), Stillness(idle.pid, 0.3)
        until = time.monotonic() + 240
        while not still.over() and time.monotonic() < until:
            assert not works.over() or time.monotonic() > until
            time.sleep(0.05)
        assert still.over()
        busy.kill()
        idle.kill()


@pytest.mark.slow
def test_a_runner_that_is_killed_blames_nobody(m, fast, monkeypatch):
    def kill(i, found):
        if i == 0:
            os.kill(m._runner.process.pid, signal.SIGKILL)

    monkeypatch.setattr(m, "heard", kill)
    assert right(*m.measure([fast, fast, fast]))


@pytest.mark.slow
def test_a_candidate_that_kills_the_runner_is_a_crash(m, fast):
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        pytest.skip("the system call is written in x86-64 assembly")
    from measure_fakes import SYSCALL

    # kill(getppid(), SIGKILL)
    body = (
        f"  %pp = call i64 asm sideeffect {SYSCALL}(i64 110, i64 0, i64 0, i64 0, i64 0, i64 0, i64 0)\n"
        f"  %done = call i64 asm sideeffect {SYSCALL}(i64 62, i64 %pp, i64 9, i64 0, i64 0, i64 0, i64 0)"
    )
    before, bad, after = m.measure([fast, built(text(body), "parricide"), fast])
    assert right(before, after)
    assert bad.outcome is Outcome.crash and "the runner was lost over it (killed by SIGKILL)" in bad.detail


@pytest.mark.slow
def test_memory_bound_kernels_rotate_their_operands_and_stay_right():
    kernel = (
        named_kernels.make("add", {"m": 96, "n": 1024})
        if "m" in named_kernels.get("add").shape_names
        else named_kernels.make("add", {"n": 98304})
    )
    with Measurer(kernel, "cpu", 1, builders=1) as m:
        (b,) = [b for _, b in m.build([()])]
        (r,) = m.measure([b])
    assert r.ok


@pytest.mark.slow
def test_symbolic_extents():
    from tilewright.ir import sym

    kernel = named_kernels.make("matmul", {"m": sym("m", 1, 512), "n": 32, "k": 16})
    with Measurer(kernel, "cpu", 1, builders=1, vars={"m": 77}) as m:
        got = dict(m.build([(), parse('[["UPCAST","n",16]]')]))
        assert right(*m.measure([got[0], got[1]]))
    with pytest.raises(MeasureError, match="symbolic extent m: give it a value"), Measurer(kernel, "cpu", 1, builders=1) as m:
        m.measure([got[0]])


def test_closed_measurers_say_so(fast):
    m = Measurer(double(), "cpu", 1, builders=1)
    m.close()
    m.close()
    with pytest.raises(MeasureError, match="this Measurer is closed"):
        m.measure([fast])


# what is left behind ----------------------------------------------------------------------------------------------------
def family(pid):
    """Every live descendant of a process, and itself."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    rest = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            if rest[0] != "Z":
                parents[int(name)] = int(rest[1])
    found = {pid}
    while True:
        more = {c for c, p in parents.items() if p in found} - found
        if not more:
            return found
        found |= more


def gone(pids, seconds=60.0):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        alive = set()
        for p in pids:
            try:
                with open(f"/proc/{p}/stat") as f:
                    if f.read().rpartition(")")[2].split()[0] not in "ZX":
                        alive.add(p)
            except OSError:
                pass
        if not alive:
            return True
        time.sleep(0.02)
    return False


SCRIPT = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[1])
    from measure_fakes import built, compile_by_name, double, endless, text
    from tilewright.measure import Measurer
    with Measurer(double(), "cpu", 1, builders=2, deadline_s=1000.0, compile=compile_by_name) as m:
        assert m.measure([built(text())])[0].ok
        busy = m.build([("hang",), ("hang",)])
        for b in (m._pool.submit(("hang",)), m._pool.submit(("hang",))):
            pass
        m._pool.pump(0.1)
        try:
            print("ready", flush=True)
            m.measure([built(text(endless()))])
        except KeyboardInterrupt:
            print("interrupted", flush=True)
            sys.exit(130)
    """
)


@pytest.mark.slow
@pytest.mark.parametrize("number,code", [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, -signal.SIGTERM)])
def test_nothing_outlives_the_main_process(number, code):
    """A candidate and two builders hang; then the main process is interrupted or killed."""
    main = subprocess.Popen([sys.executable, "-c", SCRIPT, HERE], stdout=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert main.stdout.readline() == "ready\n"
        until = time.monotonic() + 240
        while len(family(main.pid)) < 6 and time.monotonic() < until:
            time.sleep(0.02)
        pids = family(main.pid)
        assert len(pids) == 6  # main, starter, runner, its child, two builders
        if number == signal.SIGINT:
            os.killpg(main.pid, number)  # as a terminal sends it: to the whole foreground group
        else:
            main.send_signal(number)
        assert main.wait(240) == code
        assert gone(pids)
    finally:
        main.kill()
        main.wait()
        main.stdout.close()


@pytest.mark.slow
def test_the_runner_has_one_thread():
    with Measurer(named_kernels.make("matmul", {"m": 256, "n": 256, "k": 256}), "cpu", 2, builders=1) as m:
        (b,) = [b for _, b in m.build([parse('[["UPCAST","n",16],["PARALLEL","m"]]')])]
        assert m.measure([b])[0].ok
        assert len(os.listdir(f"/proc/{m._runner.process.pid}/task")) == 1
