"""Calling kernels on arrays: results, and what is said about wrong arguments."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import guarded
import numpy as np
import pytest
from tilewright import named_kernels
from tilewright.cache import Cache
from tilewright.devices import Device, Packed
from tilewright.devices.cpu import executable
from tilewright.ir import KernelBuilder, float32, sym
from tilewright.ir.errors import CacheMiss, DeviceError, KernelError, UsageError
from tilewright.ir.kernel import Kernel
from tilewright.ir.rewriter import in_place
from tilewright.plan import Artefacts, CompiledKernel, best

SHAPE = {"m": 8, "n": 32, "k": 16}
rng = np.random.default_rng(0)


@pytest.fixture
def make(rows: Cache, store: Artefacts):
    def make(kernel: str | Kernel, shape=None, dtype=None, **more) -> CompiledKernel:
        return best(kernel, shape, dtype, cache=rows, store=store, threads=1, **more)

    return make


@pytest.fixture
def compiled(make) -> CompiledKernel:
    return make("matmul", SHAPE, "float32")


def arrays() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b, c = rng.standard_normal((8, 16), np.float32), rng.standard_normal((16, 32), np.float32), np.empty((8, 32), np.float32)
    return guarded.array(a), guarded.array(b), guarded.array(c)


def test_a_call_computes(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    for _ in range(3):  # checked, then remembered
        c[:] = np.nan
        assert compiled(a, b, out=c) is c
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    for _ in range(3):
        fresh = compiled(a, b)
        assert fresh.shape == (8, 32) and fresh.dtype == np.float32
        np.testing.assert_array_equal(fresh, c)
    assert compiled(a, b, out=(c,))[0] is c


def test_what_a_prog_tells(compiled: CompiledKernel, cpu: Device) -> None:
    assert compiled.origin == "start" and compiled.kernel.name == "matmul" and compiled.threads == 1
    assert "define void @matmul_p0" in compiled.source
    assert repr(compiled).startswith("<CompiledKernel matmul(a, b, out=c): ") and repr(compiled).endswith("(start)>")


def test_the_cached_schedule_is_used(make, rows: Cache, measured) -> None:
    opts = '[["UPCAST","n",16],["UPCAST","m",8]]'
    rows.record(measured(named_kernels.make("matmul", SHAPE, "float32"), opts))
    compiled = make("matmul", SHAPE, "float32", exact_only=True)
    assert compiled.origin == "exact" and [o.json for o in compiled.opts] == [["UPCAST", "n", 16], ["UPCAST", "m", 8]]
    a, b, c = arrays()
    np.testing.assert_allclose(compiled(a, b, out=c), a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(CacheMiss):
        make("matmul", SHAPE | {"k": 17}, "float32", exact_only=True)


def test_a_cache_by_path_and_a_second_start_from_the_store(tmp_path: Path, store: Artefacts, monkeypatch: pytest.MonkeyPatch) -> None:
    best("matmul", SHAPE, "float32", cache=tmp_path / "new.db", store=store)
    monkeypatch.setattr("tilewright.devices.cpu.device.CpuDevice.build", None)
    compiled = best("matmul", SHAPE, "float32", cache=str(tmp_path / "new.db"), store=store)
    assert compiled.built.build_s == compiled.built.lower_s == 0
    assert not (tmp_path / "new.db").exists(), "a look-up makes no cache"


def test_new_and_old_arrays_mix(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    compiled(a, b, out=c)
    for _ in range(200):
        a2, b2, _c = arrays()
        np.testing.assert_allclose(compiled(a2, b, out=c), a2 @ b, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(compiled(a, b2), a @ b2, rtol=1e-5, atol=1e-5)
    assert len(compiled._shaped) == 2, "with and without out="


def test_arrays_are_not_kept(compiled: CompiledKernel) -> None:
    a, b, c = np.ones((8, 16), np.float32), np.ones((16, 32), np.float32), np.empty((8, 32), np.float32)
    for _ in range(5):
        compiled(a, b, out=c)
    assert len(compiled._same._known) == 1
    references = [weakref.ref(x) for x in (a, b, c)]
    del a, b, c
    gc.collect()
    assert [r() for r in references] == [None] * 3 and not compiled._same._known


def wrong_array(what: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[list[object], object]:
    """Inputs and output of the right shapes, one of them wrong."""
    if what == "type":
        return [a.astype(np.float64), b], c
    if what == "matrix":
        return [a.view(np.matrix), b], c
    if what == "masked":
        return [np.ma.array(a), b], c
    if what == "list":
        return [a.tolist(), b], c
    if what == "strides":
        return [np.asfortranarray(a), b], c
    if what == "output's strides":
        return [a, b], np.asfortranarray(c)
    if what == "read-only output":
        c.flags.writeable = False
        return [a, b], c
    if what == "misaligned":
        room = np.zeros(a.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(a.shape)
        return [room, b], c
    return [a], c


WRONG = {
    "type": "a is float64, it must be float32", "matrix": "a is a matrix", "masked": "a is a MaskedArray", "list": "a is a list",
    "strides": "a is not contiguous", "output's strides": "c is not contiguous", "read-only output": "c is read-only",
    "misaligned": "does not begin at a multiple of 4", "count": "takes 2 input arrays, not 1",
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_call_after_a_good_one_is_checked_too(compiled: CompiledKernel, what: str) -> None:
    a, b, c = arrays()
    for _ in range(5):
        compiled(a, b, out=c)
    inputs, out = wrong_array(what, a, b, c)
    with pytest.raises(UsageError, match=WRONG[what]):
        compiled(*inputs, out=out)


def test_an_overlap_after_a_good_call_is_refused(compiled: CompiledKernel) -> None:
    room = np.ones(8 * 16 + 16 * 32 + 8 * 32, np.float32)
    a, b, c = room[:128].reshape(8, 16), room[128:640].reshape(16, 32), room[640:].reshape(8, 32)
    compiled(a, b, out=c)
    for start in (0, 100, 127, 128, 639):
        with pytest.raises(UsageError, match="output c overlaps"):
            compiled(a, b, out=room[start : start + 256].reshape(8, 32))
    a.flags.writeable = False
    assert compiled(a, b, out=c) is c, "an input may be read-only"


def test_an_output_in_place_is_its_input_or_apart(make, rows: Cache, measured) -> None:
    kernel = named_kernels.make("add", {"m": 8, "n": 32}, "float32")
    (x, y), (out,) = (b.name for b in kernel.inputs), (b.name for b in kernel.outputs)
    rows.record(measured(kernel, '[["UPCAST","m_n",16]]'))
    over = in_place(kernel, {out: x})
    compiled, own = make(over), make(kernel)
    assert (compiled.origin, compiled.opts) == (own.origin, own.opts) == ("exact", own.opts), "the row of the kernel that is not in place"
    assert compiled.source != own.source
    room = np.arange(600, dtype=np.float32)
    a, b = room[:256].reshape(8, 32), np.ones((8, 32), np.float32)
    for _ in range(3):
        want = a + b
        assert compiled(a, b, out=a) is a
        np.testing.assert_array_equal(a, want)
        np.testing.assert_array_equal(compiled(a, b), a + b)
    for wrong in (room[16:272].reshape(8, 32), room[:512:2][:256].reshape(8, 32)):
        with pytest.raises(UsageError, match=rf"{out} overlaps {x} in memory; pass {x} itself as out=, or an out= array|not contiguous"):
            compiled(a, b, out=wrong)
    with pytest.raises(UsageError, match=rf"{out} overlaps {y} in memory; pass an out= array of its own"):
        compiled(a, b, out=b)
    with pytest.raises(UsageError, match=rf"{out} overlaps {x} in memory; pass an out="):
        own(a, b, out=a)


def test_only_arrays_that_come_in_a_row_are_remembered(compiled: CompiledKernel) -> None:
    sets = [arrays() for _ in range(100)]
    for _ in range(4):
        for a, b, c in sets:
            compiled(a, b, out=c)
    assert not compiled._same._known
    for a, b, c in sets:
        for _ in range(5):
            c[:] = np.nan
            compiled(a, b, out=c)
        np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)
    assert len(compiled._same._known) == 64


def test_many_sets_of_arrays_are_bound_once(compiled: CompiledKernel, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c = arrays()
    compiled(a, b, out=c)
    monkeypatch.setattr(CompiledKernel, "_first_call", None)
    monkeypatch.setattr(type(compiled._executable), "bind", None)
    for _ in range(200):
        a, b, c = arrays()
        np.testing.assert_allclose(compiled(a, b, out=c), a @ b, rtol=1e-5, atol=1e-5)


def test_an_array_that_was_viewed_differently_is_checked_again(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    for _ in range(5):
        compiled(a, b, out=c)
    with pytest.raises(ValueError, match="resize"):
        a.resize((100, 100), refcheck=False)
    try:
        a.shape = (16, 8)
    except AttributeError:
        pytest.skip("this NumPy does not let shapes be set")
    with pytest.raises(UsageError, match=r"a has shape \(16, 8\), it must be \(8, 16\)"):
        compiled(a, b, out=c)


@pytest.mark.filterwarnings("ignore:Setting the strides:DeprecationWarning")
def test_an_array_whose_strides_were_set_is_checked_again(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    for _ in range(5):
        compiled(a, b, out=c)
    try:
        a.strides = (0, 4)
    except AttributeError:
        pytest.skip("this NumPy does not let strides be set")
    with pytest.raises(UsageError, match="a is not contiguous"):
        compiled(a, b, out=c)


def test_programs_take_arrays_that_are_aligned_to_their_elements_only(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    want = compiled(a, b)
    odd = [np.zeros(x.size + 1, np.float32)[1:].reshape(x.shape) for x in (a, b, c)]
    odd[0][...], odd[1][...] = a, b
    assert compiled(odd[0], odd[1], out=odd[2]) is odd[2]
    np.testing.assert_array_equal(odd[2], want)


def test_unit_axes_may_have_any_stride(make) -> None:
    """NumPy calls an array contiguous whatever the strides of its axes of one element are."""
    compiled = make("add", {"m": 1, "n": 24}, "float32")
    x, y = np.arange(48, dtype=np.float32).reshape(2, 24)[::-1][:1], np.ones((1, 24), np.float32)
    np.testing.assert_array_equal(compiled(x, y), x + y)


def bad(compiled: CompiledKernel, message: str, *inputs: object, out: object = None) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match=message):
            compiled(*inputs, out=out)


def test_wrong_arguments_are_named(compiled: CompiledKernel) -> None:
    a, b, c = arrays()
    bad(compiled, r"matmul\(a, b, out=c\) takes 2 input arrays, not 1", a)
    bad(compiled, r"takes 2 input arrays, not 3", a, b, c)
    bad(compiled, r"matmul\(a, b, out=c\): b has shape \(16, 31\), it must be \(16, 32\)", a, np.zeros((16, 31), np.float32), out=c)
    bad(compiled, r"a is float64, it must be float32; convert it with \.astype\('float32'\)", a.astype(np.float64), b, out=c)
    bad(compiled, r"a is >f4, it must be float32", a.astype(">f4"), b, out=c)
    bad(compiled, r"a is not contiguous in row-major order .* numpy\.ascontiguousarray", np.asfortranarray(a), b, out=c)
    bad(compiled, r"c is not contiguous in row-major order .* tilewright\.empty", a, b, out=np.empty((8, 64), np.float32)[:, ::2])
    bad(compiled, r"a is not contiguous in row-major order \(strides \(-64, 4\)\)", a[::-1], b, out=c)
    bad(compiled, r"a is not contiguous in row-major order \(strides \(64, -4\)\)", a[:, ::-1], b, out=c)
    bad(compiled, r"b is not contiguous in row-major order \(strides \(0, 4\)\)", a, np.broadcast_to(b[0], b.shape), out=c)
    bad(compiled, r"a is not contiguous in row-major order \(strides \(0, 0\)\)", np.broadcast_to(a[0, 0], a.shape), b, out=c)
    bad(compiled, r"c is not contiguous in row-major order", a, b, out=c[::-1])
    bad(compiled, r"a is a list; pass a NumPy array", a.tolist(), b, out=c)
    bad(compiled, r"a is a MaskedArray; pass a NumPy array", np.ma.masked_array(a), b, out=c)
    bad(compiled, r"c is a str; pass a NumPy array", a, b, out="c")
    bad(compiled, r"out= takes 1 array, not 2", a, b, out=(c, c))
    bad(compiled, r"out= takes 1 array, not 0", a, b, out=())
    with pytest.raises(UsageError, match=r"matmul has no symbol 'q' \(symbols: none\)"):
        compiled(a, b, out=c, q=3)
    frozen = c.copy()
    frozen.flags.writeable = False
    bad(compiled, r"c is read-only; pass a writable array", a, b, out=frozen)
    odd = np.zeros(8 * 16 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(8, 16)
    bad(compiled, r"a does not begin at a multiple of 4 bytes; pass a copy", odd, b, out=c)


def test_outputs_must_not_overlap(make) -> None:
    compiled = make("matmul", {"m": 16, "n": 16, "k": 16}, "float32")
    a, b = rng.standard_normal((2, 16, 16)).astype(np.float32)
    bad(compiled, r"output c overlaps a in memory; pass an out= array of its own", a, b, out=a)
    block = np.zeros(2000, np.float32)
    bad(compiled, r"output c overlaps b in memory", a, block[:256].reshape(16, 16), out=block[255 : 255 + 256].reshape(16, 16))
    np.testing.assert_array_equal(compiled(a, block[:256].reshape(16, 16), out=block[256:512].reshape(16, 16)), np.zeros((16, 16)))
    np.testing.assert_allclose(compiled(a, a), a @ a, rtol=1e-4, atol=1e-5)


def test_several_outputs(make) -> None:
    compiled = make("layernorm_stats", {"m": 4, "n": 64}, "float32")
    inputs = [guarded.array(rng.standard_normal(tuple(int(d) for d in b.shape)).astype(np.float32)) for b in compiled.kernel.inputs]
    fresh = compiled(*inputs)
    assert isinstance(fresh, tuple) and len(fresh) == len(compiled.kernel.outputs) > 1
    outs = tuple(guarded.array(np.full_like(f, np.nan)) for f in fresh)
    for _ in range(2):
        assert compiled(*inputs, out=outs) is outs
        for f, o in zip(fresh, outs, strict=True):
            np.testing.assert_array_equal(f, o)
    listed = compiled(*inputs, out=list(outs))
    assert isinstance(listed, list) and listed[0] is outs[0]
    bad(compiled, r"out= takes \d arrays, not 1", *inputs, out=outs[0])
    same = [outs[0]] * len(outs)
    bad(compiled, "has shape|overlaps", *inputs, out=same)


def test_symbols_take_their_values_from_the_shapes(make) -> None:
    compiled = make("softmax", {"m": sym("rows", 1, 100), "n": 24}, "float32")
    for rows in (1, 7, 100, 7):
        x = guarded.array(rng.standard_normal((rows, 24)).astype(np.float32))
        for out in (None, guarded.array(np.empty_like(x)), None):
            e = np.exp(x - x.max(1, keepdims=True))
            np.testing.assert_allclose(compiled(x, out=out), e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    bad(compiled, r"softmax: rows is 101, outside of the range 1 \.\. 100", np.zeros((101, 24), np.float32))
    bad(compiled, r"has shape \(3, 24\), it must be \(4, 24\)", np.zeros((4, 24), np.float32), out=np.zeros((3, 24), np.float32))
    bad(compiled, r"has shape \(4, 25\), it must be \(4, 24\)", np.zeros((4, 25), np.float32))
    bad(compiled, r"x has 0 dimensions, it must have 2: \[rows, 24\]", np.zeros((), np.float32))


def test_symbols_in_arithmetic_and_by_keyword(make) -> None:
    n, by = sym("n", 1, 64), sym("by", 0, 9)
    kb = KernelBuilder("stretch")
    i = kb.axis("i", n * 2 + 1)
    x = kb.input("x", (n * 2 + 1,), float32)
    kb.store("y", float32, (n * 2 + 1,), (i,), x[i] * by.cast(float32))
    compiled = make(kb.build())
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(compiled(x, by=3), x * 3)
    np.testing.assert_array_equal(compiled(x, by=5, out=np.empty_like(x)), x * 5)
    with pytest.raises(UsageError, match=r"the value of by does not follow from the shapes .* give it, as in stretch\(\.\.\., by=16\)"):
        compiled(x)
    with pytest.raises(UsageError, match=r"by is 10, outside of the range 0 \.\. 9"):
        compiled(x, by=10)
    with pytest.raises(UsageError, match=r"x has shape \(8,\), but its extent 0 is \(n\*2 \+ 1\), which is never 8"):
        compiled(np.arange(8, dtype=np.float32), by=1)
    with pytest.raises(UsageError, match="by must be a whole number"):
        compiled(x, by=1.5)


def test_bfloat16_and_integers(make) -> None:
    import ml_dtypes

    compiled = make("matmul", SHAPE, "bfloat16")
    a, b = (rng.integers(-3, 4, s).astype(ml_dtypes.bfloat16) for s in ((8, 16), (16, 32)))
    compiled(a, b)
    out = compiled(a, b)
    assert out.dtype == ml_dtypes.bfloat16
    with pytest.raises(UsageError, match="a is not contiguous"):
        compiled(np.asfortranarray(a), b)
    frozen = np.empty_like(out)
    frozen.flags.writeable = False
    with pytest.raises(UsageError, match="c is read-only"):
        compiled(a, b, out=frozen)
    a.flags.writeable = False
    np.testing.assert_array_equal(compiled(a, b), out)
    np.testing.assert_array_equal(
        out.astype(np.float32), (a.astype(np.float32) @ b.astype(np.float32)).astype(ml_dtypes.bfloat16).astype(np.float32)
    )


def test_kernels_that_change_in_normal_form_keep_their_own_shapes(make) -> None:
    compiled = make("add", {"m": 4, "n": 24}, "float32")
    x, y = rng.standard_normal((2, 4, 24)).astype(np.float32)
    np.testing.assert_array_equal(compiled(x, y), x + y)
    bad(compiled, r"it must be \(4, 24\)", x.reshape(96), y)


def test_threads_call_one_prog(compiled: CompiledKernel) -> None:
    wrong: list[str] = []

    def work(seed: int) -> None:
        g = np.random.default_rng(seed)
        for _ in range(100):
            a, b = g.standard_normal((8, 16), np.float32), g.standard_normal((16, 32), np.float32)
            if not np.allclose(compiled(a, b), a @ b, rtol=1e-4, atol=1e-4):
                wrong.append(f"thread {seed}")

    workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []


def test_best_says_what_is_wrong_with_the_question(make, matmul: Kernel, rows: Cache, store: Artefacts) -> None:
    with pytest.raises(KernelError, match=r"unknown kernel 'matmol'.*matmul"):
        make("matmol")
    with pytest.raises(UsageError, match="shape and dtype are part of a Kernel object"):
        make(matmul, SHAPE)
    with pytest.raises(DeviceError, match="unknown device 'gpu9'"):
        best("matmul", SHAPE, device="gpu9", cache=rows, store=store)
    with pytest.raises(UsageError, match="give a whole number of at least 1"):
        best("matmul", SHAPE, threads=0, cache=rows, store=store)


# constant inputs ----------------------------------------------------------------------------------------------------
def tight(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """A machine with `most` bytes for scratch and workspaces."""
    real = executable.ScratchArena.fit

    def fit(self: executable.ScratchArena, scratch: int, work: int, threads: int) -> None:
        if scratch * threads + work > most:
            raise DeviceError("no memory")
        real(self, scratch, work, threads)

    monkeypatch.setattr(executable.ScratchArena, "fit", fit)
    monkeypatch.setattr(executable, "FREE_ARENAS", [])


def test_a_schedule_without_room_gives_way_to_the_next(
    make, rows: Cache, store: Artefacts, measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = named_kernels.make("matmul", SHAPE, "float32")
    rows.record(measured(kernel, '[["SPLIT","k",8]]'))
    assert make("matmul", SHAPE, "float32").origin == "exact"
    tight(monkeypatch, 8 * 8 * 32 * 4 - 1)
    with pytest.warns(RuntimeWarning, match="the exact schedule of matmul cannot be loaded here: no memory. The next one is used"):
        compiled = make("matmul", SHAPE, "float32")
    assert compiled.origin == "start" and all(o.op != "SPLIT" for o in compiled.opts)
    a, b, c = arrays()
    np.testing.assert_allclose(compiled(a, b, out=c), a @ b, rtol=1e-5, atol=1e-5)
    with pytest.raises(DeviceError, match="no memory"):
        make("matmul", SHAPE, "float32", exact_only=True)


@pytest.mark.slow
def test_what_no_schedule_has_room_for_is_an_error(make, rows: Cache, measured, monkeypatch: pytest.MonkeyPatch) -> None:
    rows.record(measured(named_kernels.make("matmul", SHAPE, "float32"), '[["SPLIT","k",8]]'))
    tight(monkeypatch, -1)
    with pytest.warns(RuntimeWarning, match="the start schedule of matmul"), pytest.raises(DeviceError, match="no memory"):
        make("matmul", SHAPE, "float32")


def test_a_failed_schedule_is_not_kept_as_the_start_schedule(make, store: Artefacts, monkeypatch: pytest.MonkeyPatch) -> None:
    first = make("matmul", SHAPE, "float32").opts
    with monkeypatch.context() as m:
        failures = iter([DeviceError("no memory")])
        m.setattr("tilewright.devices.cpu.executable.CpuExecutable.reserve", lambda self: next((_raise(e) for e in failures), None))
        with pytest.warns(RuntimeWarning):
            assert make("matmul", SHAPE, "float32").opts != first
    assert make("matmul", SHAPE, "float32").opts == first


def _raise(e: Exception) -> None:
    raise e


def test_a_workspace_that_no_machine_has_is_a_device_error() -> None:
    for size in (1 << 62, 1 << 70):
        with pytest.raises(DeviceError, match="no memory for"):
            executable.ScratchArena().fit(0, size, 1)
        with pytest.raises(DeviceError, match="no memory for"):
            Packed(size)


@pytest.fixture
def packed(rows: Cache, store: Artefacts, measured) -> CompiledKernel:
    """A matmul whose stored schedule packs b once."""
    opts = '[["UPCAST","m",4],["UPCAST","n",16],["STAGE","b",{"at":"once"}]]'
    kernel = named_kernels.make("matmul:constant=b", SHAPE, "float32")
    rows.record(measured(kernel, opts))
    found = best(kernel, cache=rows, store=store, threads=1)
    assert found.origin == "exact" and found.built.signature.once == 1
    return found


def test_a_constant_input_is_packed_at_the_first_call_with_it(packed: CompiledKernel) -> None:
    a, b, c = arrays()
    other, before = rng.standard_normal(b.shape, np.float32), b.copy()
    np.testing.assert_allclose(packed(a, b), a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(packed(a, other, out=c), a @ other, rtol=1e-5, atol=1e-5)
    b[:] = 0  # against the promise: what is packed is read on
    np.testing.assert_allclose(packed(a, b, out=c), a @ before, rtol=1e-5, atol=1e-5)
    packed.repack()
    assert not packed(a, b, out=c).any()
    np.testing.assert_allclose(packed(2 * a, other), 2 * a @ other, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_what_was_packed_goes_with_the_array(packed: CompiledKernel) -> None:
    a, b, _ = arrays()
    kept = packed._constants._kept
    for _ in range(3):
        fresh = b + 1  # memory of an array that is gone may come back with other contents
        np.testing.assert_allclose(packed(a, fresh), a @ fresh, rtol=1e-5, atol=1e-5)
        assert len(kept) == 1
        del fresh
        gc.collect()
        assert not kept
    packed(a, b)
    packed(a, b[:])
    assert len(kept) == 1  # a view is the same memory


def test_constant_inputs_pack_once_from_many_threads(packed: CompiledKernel) -> None:
    a, b, _ = arrays()
    made, want, packs = [], a @ b, []
    original = packed._executable.pack
    packed._executable.pack = lambda *args: packs.append(1) or original(*args)
    threads = [threading.Thread(target=lambda: made.append(packed(a, b))) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(packs) == 1 and len(made) == 8
    for c in made:
        np.testing.assert_allclose(c, want, rtol=1e-5, atol=1e-5)


def test_an_output_made_read_only_after_its_first_call_is_refused(compiled: CompiledKernel) -> None:
    """The checks are remembered for these very arrays; whether they may be written is asked every time."""
    a, b, c = arrays()
    for out in (c, (c,), [c]):
        compiled(a, b, out=out)
        compiled(a, b, out=out)
        c[:] = 7
        c.flags.writeable = False
        with pytest.raises(UsageError, match="c is read-only; pass a writable array"):
            compiled(a, b, out=out)
        assert (c == 7).all()
        c.flags.writeable = True


def test_a_start_schedule_that_cannot_be_lowered_gives_way_to_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What guesses a schedule knows whether it is legal, and lowering whether it can be written down; a schedule that was asked for is
    an error."""
    from tilewright.ir.errors import OptError
    from tilewright.plan import find

    refused: list[Any] = []
    render = find.render

    def first_fails(kernel: Any, opts: Any, *rest: Any) -> Any:
        if not refused:
            refused.append(opts)
            raise OptError("lanes all write one element")
        return render(kernel, opts, *rest)

    monkeypatch.setattr(find, "render", first_fails)
    compiled = best("softmax", {"m": 8, "n": 64}, threads=1, cache=tmp_path / "c.db")
    assert compiled.origin == "start" and tuple(compiled.opts) != tuple(refused[0])
    refused.clear()
    with pytest.raises(OptError, match="all write one"):
        best("softmax", {"m": 8, "n": 64}, threads=1, cache=tmp_path / "c.db", opts="Un16")


def test_memoryviews_are_arrays(compiled: CompiledKernel) -> None:
    inputs = [np.ones(tuple(b.shape), b.dtype.np) for b in compiled.kernel.inputs]
    want = compiled(*inputs)
    outs = [np.empty(tuple(b.shape), b.dtype.np) for b in compiled.kernel.outputs]
    views = tuple(memoryview(o) for o in outs)
    for _ in range(2):
        assert (compiled(*map(memoryview, inputs)) == want).all()
        assert compiled(*map(memoryview, inputs), out=views[0]) is views[0] and (outs[0] == want).all()
    with pytest.raises(UsageError, match="it must be float32"):
        compiled(*(memoryview(a.astype("int8")) for a in inputs))
    compiled.bound(*map(memoryview, inputs), *views)
