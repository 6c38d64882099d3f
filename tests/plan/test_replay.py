"""Lists of calls that run again and again: the same bits as calls one by one, and errors instead of crashes."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest
from tilewright import named_kernels
from tilewright.cache import Cache
from tilewright.devices import BoundCall
from tilewright.devices.bound_calls import QueuedCalls
from tilewright.devices.cpu import native_calls
from tilewright.devices.cpu.executable import FREE_ARENAS
from tilewright.devices.cpu.native_calls import TRIALS
from tilewright.ir import KernelBuilder, float32, float64, sym
from tilewright.ir import index as ix
from tilewright.ir.dtypes import index
from tilewright.ir.errors import UsageError
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import const
from tilewright.ir.node import make as node
from tilewright.ir.rewriter import in_place
from tilewright.opts import opt
from tilewright.plan import Artefacts, CompiledKernel, Replay, best

rng = np.random.default_rng(3)


@pytest.fixture
def make(rows: Cache, store: Artefacts):
    def make(kernel: str | Kernel, shape=None, dtype=None, threads=1, device="cpu") -> CompiledKernel:
        return best(kernel, shape, dtype, cache=rows, store=store, threads=threads, device=device)

    return make


def multiply_add(n: object = 16) -> Kernel:
    kb = KernelBuilder("multiply_add")
    i = kb.axis("i", n)
    x, y = kb.input("x", (n,), float32), kb.input("y", (n,), float32)
    kb.store("out", float32, (n,), (i,), x[i] * 2.0 + y[i])
    return kb.build()


def chain(compiled: CompiledKernel, length: int, n: int = 16) -> tuple[list[np.ndarray], list[BoundCall]]:
    """Each call reads what the two before it wrote."""
    made = [rng.integers(-9, 9, n).astype(np.float32) for _ in range(2)] + [np.zeros(n, np.float32) for _ in range(length)]
    return made, [compiled.bound(*made[i : i + 3]) for i in range(length)]


def expected(x: np.ndarray, y: np.ndarray, length: int) -> np.ndarray:
    for _ in range(length):
        x, y = y, x * 2 + y
    return y


@pytest.mark.slow
@pytest.mark.parametrize("device", ["cpu", "cpu:c"])
def test_every_run_makes_all_calls_in_order(make, device):
    arrays, calls = chain(make(multiply_add(), device=device), 10)
    replay = Replay(calls)
    assert len(replay) == 10 and replay.threads == (1,) * 10 and replay.calls == tuple(calls)
    for _ in range(12):
        arrays[0][:] = rng.integers(-9, 9, 16)
        for a in arrays[2:]:
            a[:] = np.nan
        replay()
        np.testing.assert_array_equal(arrays[-1], expected(arrays[0], arrays[1], 10))


def test_slots_and_patches_change_addresses(make):
    compiled = make(multiply_add())
    arrays, calls = chain(compiled, 4)
    replay = Replay(calls, [[(0, 0)], [(0, 1), (1, 0)], [(3, 2)]])
    for _ in range(3):
        x, y, out = (rng.integers(-9, 9, 16).astype(np.float32) for _ in range(3))
        replay(*(a.ctypes.data for a in (x, y, out)))
        np.testing.assert_array_equal(out, expected(x, y, 4))
    other = np.zeros(16, np.float32)
    replay.patch([(2, 2, other.ctypes.data), (3, 1, other.ctypes.data)])
    arrays[4][:] = np.nan
    replay(*(a.ctypes.data for a in (x, y, out)))
    np.testing.assert_array_equal(out, expected(x, y, 4))
    assert np.isnan(arrays[4]).all(), "the third call writes elsewhere now"


def test_state_is_updated_in_place(make):
    compiled = make(in_place(multiply_add(), {"out": "x"}))
    x, y = np.zeros(16, np.float32), np.ones(16, np.float32)
    replay, want = Replay([compiled.bound(x, y, x)]), np.zeros(16, np.float32)
    for _ in range(len(TRIALS) + 2):
        replay()
        want = want * 2 + y
        np.testing.assert_array_equal(x, want)


def test_kernels_of_all_kinds_in_one_list(make):
    """Symbols, several phases, scratch of different sizes, two devices of the processor."""
    n = sym("n", 1, 64)
    add, matmul = make(multiply_add(n), device="cpu:c"), make("matmul", {"m": 40, "n": 40, "k": 64}, "float32", threads=2)
    softmax = make("softmax", {"m": 40, "n": 40}, "float32", threads=2)
    a, b = (rng.standard_normal(s, np.float32) for s in ((40, 64), (64, 40)))
    c, d, e = (np.empty((40, 40), np.float32) for _ in range(3))
    calls = [matmul.bound(a, b, c), softmax.bound(c, d), add.bound(d[0], d[1], e[0])]
    replay = Replay(calls)
    for _ in range(len(TRIALS) + 2):
        FREE_ARENAS.clear()  # the arena is another one each time
        c[:] = d[:] = e[:] = np.nan
        replay()
        np.testing.assert_array_equal(c, matmul(a, b))
        np.testing.assert_array_equal(d, softmax(c))
        np.testing.assert_array_equal(e[0], d[0] * 2 + d[1])


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch):
    """A clock for trials: seconds of each call with all its threads, and with one."""

    def use(wide: list[float], alone: list[float]) -> None:
        original = native_calls.pool()

        class Clock:
            replay, scatter, given = original.replay, original.scatter, original.given

            @staticmethod
            def advance(context: int, at: int, n: int, begin: int, part: int) -> int:
                done = original.advance(context, at, n, begin, part)
                words = (native_calls.ctypes.c_int64 * 4).from_address(context)
                found = (native_calls.ctypes.c_double * n).from_address(words[2])
                found[:] = [w if t > 1 else s for w, s, t in zip(wide, alone, runner[-1].threads, strict=True)]
                (native_calls.ctypes.c_int64 * n).from_address(words[3])[:] = [1] * n
                return done

        runner: list[native_calls.NativeCalls] = []
        start = native_calls.NativeCalls.__init__
        monkeypatch.setattr(native_calls, "pool", lambda: Clock)
        monkeypatch.setattr(native_calls.NativeCalls, "__init__", lambda self, *args: (runner.append(self), start(self, *args))[1])

    return use


@pytest.mark.parametrize(
    ("wide", "alone", "threads"),
    [
        ([5e-6, 5e-6], [1e-6, 9e-6], (1, 2)),
        ([9e-6, 2e-6], [9e-6, 2e-6], (1, 1)),
        ([6e-5, 1e-6], [0.0, 2e-6], (2, 2)),  # the first is long: never tried with one thread
    ],
)
def test_short_calls_run_where_they_are_quicker(rows, store, times, wide, alone, threads):
    kernel = named_kernels.make("add", {"m": 64, "n": 64}, "float32")
    compiled = best(kernel, cache=rows, store=store, threads=2)
    if not any(o == opt("PARALLEL", o.on) for o in compiled.opts):
        pytest.skip("the start schedule of a small kernel has one part")
    times(wide, alone)
    x, y, out = (np.ones((64, 64), np.float32) for _ in range(3))
    replay = Replay([compiled.bound(x, y, out)] * 2)
    for _ in range(len(TRIALS)):
        out[:] = 0
        replay()
        assert (out == 2).all()
    assert replay.threads == threads


def test_words_that_follow_from_sizes_are_computed_in_native_memory() -> None:
    n, m = sym("n", 0, 99), sym("m", 1, 99)
    low, high = ix.add(n, const(-40)), ix.add(const(7), m, -3)
    most, least = node("max", index, (low, const(0))), node("min", index, (low, high))
    positive = node("min", index, (node("max", index, (low, const(0))), const(1)))
    halves = [node(op, index, (low,), 7) for op in ("div", "mod")]
    nodes = [n, const(3), high, most, least, positive, *halves, node("prod", index, (low, m, positive)), ix.add(most, m, 2)]
    out = np.zeros(len(nodes), np.int64)
    given = native_calls.Given([], 0, ["n", "m"])
    given.compute([(out.ctypes.data + 8 * i, x) for i, x in enumerate(nodes)], watched=True)
    for values in [(0, 1), (39, 9), (41, 99), (99, 50), (99, 50), (3, 2)]:
        given.put(given.words, 0, *values)
        native_calls.pool().given(given.record)
        assert list(out) == [ix.evaluate(x, {n: values[0], m: values[1]}) for x in nodes]
        assert tuple(out) == ix.function(nodes, ["n", "m"])(*values)


def test_values_of_another_magnitude_are_told_until_they_are_known() -> None:
    given = native_calls.Given([], 0, ["n"])
    given.compute([], watched=True)
    told = []
    for value, known in [(5, False), (5, True), (5, True), (7, True), (8, True), (0, True), (0, False)]:
        given.put(given.words, 0, value)
        told.append(native_calls.pool().given(given.record))
        if known:
            given.values()
    assert told == [1, 1, 0, 0, 1, 1, 0]


def sized(make, device: str, threads: int) -> tuple[CompiledKernel, CompiledKernel]:
    """Kernels of sizes n, m and of m, n: sums of rows, and an outer sum."""
    n, m = sym("n", 0, 99), sym("m", 1, 99)
    kb = KernelBuilder("rows")
    i, j = kb.axis("i", n), kb.axis("j", m)
    x = kb.input("x", (n, m), float32)
    kb.store("out", float32, (n,), (i,), kb.sum("s", (i,), j, x[i, j])[i])
    outer = KernelBuilder("outer")
    i, j = outer.axis("i", m), outer.axis("j", n)
    a, b = outer.input("a", (m,), float32), outer.input("b", (n,), float32)
    outer.store("out", float32, (m, n), (i, j), a[i] + b[j])
    return make(kb.build(), threads=threads, device=device), make(outer.build(), threads=threads, device=device)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("device", "threads", "kind"), [("cpu", 1, Replay), ("cpu", 2, Replay), ("cpu:c", 2, Replay), ("cpu", 2, QueuedCalls)]
)
def test_values_of_symbols_come_with_each_run(make, device, threads, kind):
    rows, outer = sized(make, device, threads)
    room = [np.zeros(99 * 99, np.float32) for _ in range(5)]
    x, sums, a, out, _ = room
    at = [r.ctypes.data for r in room]
    calls = [BoundCall(rows.executable, (at[0], at[1])), BoundCall(outer.executable, (at[2], at[1], 0))]
    replay = kind(calls, [[(1, 2)]], ["m", "n"])
    for repeat in range(2):
        for n, m in ((1, 1), (99, 99), (7, 31), (31, 7), (0, 5), (64, 1), (1, 64), (33, 98), *[(48, 50)] * 9):
            x[: n * m], a[:m] = rng.integers(-9, 9, n * m), rng.integers(-9, 9, m)
            sums[:] = out[:] = 7
            replay.run(at[3], m, n)
            want = x[: n * m].reshape(n, m).sum(1)
            assert (sums[:n] == want).all() and (sums[n:] == 7).all()
            assert (out[: n * m].reshape(m, n) == a[:m, None] + want).all() and (out[n * m :] == 7).all(), (repeat, n, m)
    with pytest.raises(UsageError, match="1 addresses, one for each slot, and then values of m, n, not 2"):
        replay.run(at[3], 4)
    with pytest.raises(UsageError, match="needs a value for each of its symbols"):
        kind(calls, [[(1, 2)]], ["n"])


@pytest.mark.slow
def test_threads_are_chosen_for_each_magnitude(make, times):
    rows, _ = sized(make, "cpu", 2)
    x, out = np.ones((99, 99), np.float32), np.empty(99, np.float32)
    wide, alone = [5e-6], [1e-6]
    times(wide, alone)
    replay = Replay([BoundCall(rows.executable, (x.ctypes.data, out.ctypes.data))], (), ["n", "m"])
    if not any(o == opt("PARALLEL", o.on) for o in rows.opts):
        pytest.skip("the start schedule of a small kernel has one part")
    found = []
    for n, best_alone in ((70, 1e-6), (90, 1e-6), (40, 9e-6), (99, 1e-6), (63, 9e-6)):
        alone[0] = best_alone
        for _ in range(len(TRIALS)):
            replay(n, 50)
        found.append(replay.threads)
    assert found == [(1,), (1,), (2,), (1,), (2,)]


def test_a_replay_keeps_its_executables_and_arrays(make):
    compiled = make(multiply_add())
    arrays, calls = chain(compiled, 3)
    replay, gone = Replay(calls), weakref.ref(arrays[3])
    x, y, out = arrays[0], arrays[1], arrays[-1]
    del compiled, arrays, calls
    gc.collect()
    replay()
    np.testing.assert_array_equal(out, expected(x, y, 3))
    assert gone() is not None
    del replay
    gc.collect()
    assert gone() is None


def test_a_closed_executable_ends_its_replays(make):
    compiled = make(multiply_add())
    _, calls = chain(compiled, 2)
    replay = Replay(calls)
    replay()
    compiled.executable.close()
    with pytest.raises(UsageError, match="multiply_add has been closed"):
        replay()


def test_many_threads_may_run_one_replay(make):
    arrays, calls = chain(make(multiply_add()), 50)
    replay = Replay(calls)
    threads = [threading.Thread(target=lambda: [replay() for _ in range(100)]) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    np.testing.assert_array_equal(arrays[-1], expected(arrays[0], arrays[1], 50))


def test_constant_inputs_are_packed_when_they_are_bound(rows, store, measured):
    kernel = named_kernels.make("matmul:constant=b", {"m": 8, "n": 32, "k": 16}, "float32")
    rows.record(measured(kernel, '[["UPCAST","n",16],["STAGE","b",{"at":"once"}]]'))
    compiled = best(kernel, cache=rows, store=store, threads=1)
    assert compiled.built.signature.once
    a, b, c = rng.standard_normal((8, 16), np.float32), rng.standard_normal((16, 32), np.float32), np.empty((8, 32), np.float32)
    replay, want = Replay([compiled.bound(a, b, c)]), a @ b
    b[:] = 0  # against the promise: what is packed is read on
    for _ in range(2):
        c[:] = np.nan
        replay()
        np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)


def test_wrong_lists_are_refused(make):
    compiled = make(multiply_add())
    _, (call, *_) = chain(compiled, 1)
    good, exe = call.pointers, call.executable
    for pointers, said in (
        (good[:2], "call 0: multiply_add takes 3 buffers, not 2"),
        ((0, *good[1:]), r"x of call 0 \(multiply_add\) has no address: give one, or put it into a slot"),
        ((good[0] + 2, *good[1:]), "x of call 0 .* must lie at a multiple of 4 bytes"),
    ):
        with pytest.raises(UsageError, match=said):
            Replay([BoundCall(exe, pointers)])
    with pytest.raises(UsageError, match=r"needs a value for each of its symbols \(none\), not 1 values"):
        Replay([BoundCall(exe, good, (3,))])
    for slots, said in (
        ([[(1, 0)]], "there is no call 1"),
        ([[(0, 3)]], r"call 0 \(multiply_add\) has no parameter 3"),
        ([[(0, 0)], [(0, 0)]], "is in two slots"),
    ):
        with pytest.raises(UsageError, match=said):
            Replay([call], slots)
    replay = Replay([call], [[(0, 0)]])
    with pytest.raises(UsageError, match="this replay takes 1 addresses, one for each slot, not 0"):
        replay()
    with pytest.raises(UsageError, match="there is no call 7"):
        replay.patch([(0, 1, good[1]), (7, 0, good[0])])
    with pytest.raises(UsageError, match=r"y of call 0 .* has no address"):
        replay.patch([(0, 1, 0)])
    Replay([])()


def test_other_devices_queue_the_calls_and_wait_once(make):
    compiled = make(multiply_add())
    arrays, calls = chain(compiled, 5)
    waits: list[int] = []
    exe = compiled.executable
    exe.wait = lambda: waits.append(1)
    replay = QueuedCalls(calls, [[(0, 0), (0, 1)]])
    replay.run(arrays[1].ctypes.data)
    want = arrays[1] * 3
    np.testing.assert_array_equal(arrays[2], want)
    np.testing.assert_array_equal(arrays[-1], expected(arrays[1], want, 4))
    assert waits == [1] and replay.threads == (1,) * 5
    with pytest.raises(UsageError, match="takes 1 addresses"):
        replay.run()


def test_calls_of_two_devices_are_refused(make):
    class Elsewhere:
        signature = make(multiply_add()).built.signature
        addressed = True

    _, calls = chain(make(multiply_add()), 1)
    with pytest.raises(UsageError, match="calls of several devices"):
        Replay([*calls, BoundCall(Elsewhere(), calls[0].pointers)])


def test_arrays_are_checked_when_they_are_bound(make):
    compiled = make(multiply_add())
    x = np.ones(16, np.float32)
    with pytest.raises(UsageError, match="output out overlaps x"):
        compiled.bound(x, x, x)
    with pytest.raises(UsageError, match="x is float64"):
        compiled.bound(x.astype(float64.np), x, np.empty(16, np.float32))
    with pytest.raises(UsageError, match="takes 1 array, not 0"):
        compiled.bound(x, x)
