"""The opencl device on PoCL: kernels by hand and rendered ones, buffers, timing, objects, and what it refuses."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright
from opencl_driver import POCL, needs_pocl, source
from tilewright import devices, named_kernels
from tilewright.devices import BoundCall
from tilewright.devices.base import HugePages
from tilewright.devices.opencl import declarations, session
from tilewright.devices.opencl.device import OpenClDevice
from tilewright.heuristics import starts
from tilewright.ir import BuildError, DeviceError, MeasureError, UsageError, const
from tilewright.ir.index import add
from tilewright.ir.node import sym
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.measure.checking.verify import check, expectations
from tilewright.measure.inputs import generate, shape
from tilewright.opts import apply, opt
from tilewright.plan import Replay
from tilewright.renderers import render
from tilewright.targets import Target

pytestmark = needs_pocl
DOUBLE = "__kernel void k_p0(__global const float *a, __global float *b) { b[get_global_id(0)] = 2 * a[get_global_id(0)]; }"


@pytest.fixture(scope="module")
def device() -> OpenClDevice:
    got = devices.get(POCL)
    assert isinstance(got, OpenClDevice)
    return got


def on_device(device: OpenClDevice, arrays: Sequence[np.ndarray[Any, Any]]) -> list[int]:
    memory = device.memory()
    handles = []
    for a in arrays:
        handles.append(memory.alloc(a.nbytes))
        memory.write(handles[-1], a.ctypes.data, a.nbytes)
    return handles


def test_a_first_run_tells_when_the_driver_has_compiled(device: OpenClDevice) -> None:
    made = source(DOUBLE.replace("2 *", "2.125f *"), device.target)
    exe = device.load(device.build(made), made.signature, device.threads)
    pointers = on_device(device, [np.ones(8, np.float32), np.zeros(8, np.float32)])
    seen: list[int] = []

    def compiled() -> int:
        return len(list(Path(os.environ["POCL_CACHE_DIR"]).rglob("*.so")))

    before = compiled()
    exe.begun = lambda: seen.append(compiled())
    exe.run(pointers)
    exe.run(pointers)
    assert seen == [before + 1] and exe.begun is None


def test_what_is_built_is_compiled_before_its_first_launch(device: OpenClDevice) -> None:
    kernel = normalise(named_kernels.make("softmax", {"m": 3, "n": 5}, "float32"))
    made = render(lower(apply(kernel, (), device.target)), device.target)
    before = set(Path(os.environ["POCL_CACHE_DIR"]).rglob("*.so"))
    device.build(made)
    assert {p.stem for p in set(Path(os.environ["POCL_CACHE_DIR"]).rglob("*.so")) - before} == {f"{kernel.name}_p0"}
    device.build(source(DOUBLE, device.target))  # (which would use the buffers)


def call(device: OpenClDevice, made: Any, arrays: Sequence[np.ndarray[Any, Any]], vars: Sequence[int] = ()) -> None:
    """Build, load and run on copies of arrays, and copy them back."""
    exe = device.load(device.build(made), made.signature, device.threads)
    handles = on_device(device, arrays)
    exe.poison()
    exe.run(handles, vars)
    memory = device.memory()
    for h, a in zip(handles, arrays, strict=True):
        memory.read(h, a.ctypes.data, a.nbytes)
        memory.free(h)
    exe.close()


@pytest.mark.slow
def test_a_kernel_of_groups(device: OpenClDevice) -> None:
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    call(device, source(DOUBLE, device.target, items=8, threads=8), [a, b])
    assert (b == 2 * a).all()


def test_tiles_in_two_slots(device: OpenClDevice) -> None:
    kernel = named_kernels.make("matmul", {"m": 33, "n": 37, "k": 200})
    cuts = [opt("PARALLEL", "m"), opt("LOCAL", "m", 4), opt("LOCAL", "n", 8), opt("UPCAST", "n", 4), opt("TILE", "k", 16)]
    stages = [opt("STAGE", x, at="k", depth=2, order=order) for x, order in (("a", "panel"), ("b", "row"))]
    made = render(lower(apply(kernel, [*cuts, *stages], device.target)), device.target)
    inputs = generate(kernel, {}, 3)
    outputs = {b.name: np.zeros(shape(b, kernel, {}), np.float32) for b in kernel.outputs}
    call(device, made, [*inputs.values(), *outputs.values()])
    for name, want in expectations(kernel, inputs, {}).items():
        assert check(want, outputs[name].ctypes.data).ok


def test_phases_share_a_workspace_and_threads_share_group_memory(device: OpenClDevice) -> None:
    text = """
__kernel void k_p0(__global const float *a, __global float *b, __global uchar *work) {
    __local float s[16];
    const int t = get_local_id(0);
    s[t] = a[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    ((__global float *)work)[get_global_id(0)] = s[15 - t];
}
__kernel void k_p1(__global const float *a, __global float *b, __global uchar *work) { b[get_global_id(0)] = ((__global float *)work)[63 - get_global_id(0)]; }
"""
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    call(device, source(text, device.target, items=(4, 64), threads=(16, 1), work=256, shared=64), [a, b])
    assert (b == a.reshape(4, 16)[::-1].ravel()).all()


def test_symbols_and_an_arena(device: OpenClDevice) -> None:
    n = sym("n", 1, 4096)
    text = """
__kernel void k_p0(__global float *b, __global uchar *arena, long n, long m) {
    __global float *mine = (__global float *)(arena + get_global_id(0) * 20032);
    for (int i = 0; i < 5000; i++) mine[i] = i < m ? 1.0f : 0.0f;
    float t = 0;
    for (int i = 0; i < 5000; i++) t += mine[i];
    b[get_global_id(0)] = t + n;
}
"""
    made = source(text, device.target, items=add(n, const(1)), threads=2, params=((64, "out"),), symbols=("n", "m"), scratch=20000)
    exe = device.load(device.build(made), made.signature, device.threads)
    b = np.zeros(64, np.float32)
    memory = device.memory()
    (h,) = on_device(device, [b])
    for values in ((3, 7), (9, 2)):
        exe.run([h], values)
        memory.read(h, b.ctypes.data, b.nbytes)
        expected = np.zeros(64, np.float32)
        expected[: 2 * (values[0] + 1)] = sum(values)
        assert (b[: 2 * (values[0] + 1)] == expected[: 2 * (values[0] + 1)]).all()
    memory.free(h)
    exe.close()


def test_memory(device: OpenClDevice) -> None:
    memory = device.memory()
    h = memory.alloc(1000)
    memory.fill(h, 7, 1000)
    memory.fill(h, 255, 3, 997)
    data = np.arange(5, dtype=np.uint8)
    memory.write(h, data.ctypes.data, 5, 10)
    out = np.zeros(1000, np.uint8)
    memory.read(h, out.ctypes.data, 990, 10)
    assert (out[:5] == data).all() and (out[5:987] == 7).all() and (out[987:990] == 255).all()
    memory.write(h, 0, 0)
    memory.read(h, 0, 0)
    memory.free(h)


def test_more_memory_than_there_is(device: OpenClDevice) -> None:
    with pytest.raises(MeasureError, match=r"takes buffers of at most .* bytes, not .*; measure a smaller shape"):
        device.memory().alloc(1 << 50)


def test_time(device: OpenClDevice) -> None:
    made = source(DOUBLE, device.target, items=64)
    exe = device.load(device.build(made), made.signature, device.threads)
    a, b, c = (np.full(64, v, np.float32) for v in (1, 0, 0))
    ha, hb, hc = on_device(device, [a, b, c])
    times = exe.time([[ha, hb], [ha, hc]], (), 150)
    assert len(times) == 150 and all(0 < t < 1 for t in times)
    device.memory().read(hc, c.ctypes.data, c.nbytes)
    assert (c == 2).all()
    assert len(exe.time([[ha, hb]], (), 1000, 0.0)) < 100  # at least one, and no more once the time is over
    assert len(exe.time([[ha, hb]], (), 0)) == 1
    exe.close()


def test_a_replay_queues_its_kernels_and_waits_once(device: OpenClDevice) -> None:
    made = source(DOUBLE, device.target, items=64)
    exe = device.load(device.build(made), made.signature, device.threads)
    a, b, c, d = (np.full(64, v, np.float32) for v in (1, 0, 0, 5))
    ha, hb, hc, hd = on_device(device, [a, b, c, d])
    replay = Replay([BoundCall(exe, (ha, hb)), BoundCall(exe, (hb, hc))], [[(0, 0)]])
    for start, value in ((ha, 1), (hd, 5), (ha, 1)):
        replay(start)
        device.memory().read(hc, c.ctypes.data, c.nbytes)
        assert (c == 4 * value).all()
    exe.close()
    with pytest.raises(UsageError, match="has been closed"):
        replay(ha)


def test_the_device_s_clock_sees_the_work(device: OpenClDevice) -> None:
    text = "__kernel void k_p0(__global const float *a, __global float *b, long n) { float t = 0; for (long i = 0; i < n; i++) t = t * a[i & 7] + 1; b[0] = t; }"
    made = source(text, device.target, symbols=("n",))
    exe = device.load(device.build(made), made.signature, device.threads)
    handles = on_device(device, [np.ones(64, np.float32), np.ones(64, np.float32)])
    short, long = (min(exe.time([handles], (n,), 5)) for n in (1000, 1_000_000))
    assert long > 20 * short and long > 1e-4
    exe.close()


def test_several_threads_may_call(device: OpenClDevice) -> None:
    from concurrent.futures import ThreadPoolExecutor

    made = source(DOUBLE, device.target, items=64)
    exe = device.load(device.build(made), made.signature, device.threads)
    inputs = [np.full(64, i, np.float32) for i in range(8)]
    sets = [on_device(device, [a, np.zeros(64, np.float32)]) for a in inputs]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda s: [exe.run(s) for _ in range(20)], sets))
    out = np.zeros(64, np.float32)
    for i, (_, h) in enumerate(sets):
        device.memory().read(h, out.ctypes.data, out.nbytes)
        assert (out == 2 * i).all()
    exe.close()


def test_poison_reaches_the_workspace(device: OpenClDevice) -> None:
    text = "__kernel void k_p0(__global const float *a, __global float *b, __global uchar *work) { b[get_global_id(0)] = ((__global float *)work)[get_global_id(0)]; }"
    b = np.zeros(64, np.float32)
    call(device, source(text, device.target, items=64, work=256), [b.copy(), b])
    assert np.isnan(b).all()


# declarations ---------------------------------------------------------------------------------------------------------
def test_declarations_are_those_of_the_driver(device: OpenClDevice) -> None:
    """A function that is declared twice with other results, or other attributes of its type, is an error."""
    moved = [f"v{way}{n}" for way in ("load", "store") for n in (2, 16)] + [f"v{way}_half{n}" for way in ("load", "store") for n in ("", 8)]
    rounded = ["vstore_half16_rte", "vstorea_half4_rtz", "vloada_half4", "convert_uchar16_sat_rte", "convert_float8", "convert_long_rtz"]
    every = sorted(declarations._TABLES) + moved + rounded
    made = declarations.declarations(" ".join(f"{name}();" for name in every))
    assert made is not None and all(f" {name}(" in made for name in every)
    s = device.open()
    s._built(s.cl.Program(s.context, f"{made}__kernel void k(__global int *x) {{ *x = 1; }}"), options=s.options(), cache_dir=False)


@pytest.mark.parametrize(
    ("body", "short"),
    [
        ("x[0] = fma(vload4(0, x), (float4)(2), sqrt(vload4(1, x))).s1; barrier(CLK_LOCAL_MEM_FENCE);", True),
        ("x[0] = MINE(own(x[1])) + min((short)x[2], (short)7) + vload_half(0, (__global half *)x);", True),
        ("atomic_inc((__global int *)x);", False),  # not in the tables
        ("x[0] = HIDDEN(x[1]);", False),  # a macro calls what is not in the tables
    ],
)
def test_a_text_is_compiled_with_what_it_calls(device: OpenClDevice, monkeypatch: pytest.MonkeyPatch, body: str, short: bool) -> None:
    s = device.open()
    given: list[list[str]] = []
    build = s._built
    monkeypatch.setattr(s, "_built", lambda program, **how: given.append(how["options"]) or build(program, **how))
    head = "#define MINE(v) clamp(v, 0.0f, 1.0f)\n#define HIDDEN(v) nan((uint)v)\nstatic float own(float v) { return exp(v); }\n"
    s.compile(f"{head}__kernel void k(__global float *x) {{ {body} }}")
    assert (declarations.KNOWN in given[-1]) == short


# what it refuses -----------------------------------------------------------------------------------------------------
def test_text_that_does_not_compile(device: OpenClDevice) -> None:
    with pytest.raises(BuildError, match=r"the OpenCL compiler refused it: .*undeclared identifier 'nothing'"):
        device.build(source("__kernel void k_p0(__global float *a) { a[0] = nothing; }", device.target))


def test_another_language(device: OpenClDevice) -> None:
    with pytest.raises(BuildError, match="builds OpenCL C, not llvm: render for an 'opencl' target"):
        device.build(source("define", devices.get("cpu").target))


def test_more_than_the_device_has_never_reaches_the_driver(device: OpenClDevice) -> None:
    target = device.target
    made = source(DOUBLE, target, shared=target.shared + 1)
    for step in (lambda: device.build(made), lambda: device.load(device.build(source(DOUBLE, target)), made.signature, device.threads)):
        with pytest.raises(BuildError, match=r"wants \d+ bytes of shared memory and pocl-.* has \d+"):
            step()
    with pytest.raises(BuildError, match=r"wants groups of \d+ threads and pocl-.* takes at most \d+"):
        device.build(source(DOUBLE, target, threads=target.max_threads + 1))


def test_an_arena_too_large_is_refused(device: OpenClDevice) -> None:
    text = "__kernel void k_p0(__global const float *a, __global float *b, __global uchar *arena) { b[0] = 1; }"
    made = source(text, device.target, items=1 << 20, threads=2, scratch=1 << 16)
    exe = device.load(device.build(made), made.signature, device.threads)
    with pytest.raises(BuildError, match="above 512 MiB in all"):
        exe.run(on_device(device, [np.zeros(64, np.float32)] * 2))


def test_objects(device: OpenClDevice) -> None:
    made = source(DOUBLE, device.target, items=64)
    obj = device.build(made)
    for bad in (obj[:-1], b"", b"x" * 100, obj.replace(b"2 *", b"3 *")):
        with pytest.raises(BuildError, match="not a whole object of the opencl device"):
            device.load(bad, made.signature, device.threads)
    with pytest.raises(DeviceError, match=r"built for .* by opencl Portable Computing Language 0\.0.*; build it again"):
        device.load(obj.replace(device.found.about["driver"].encode(), b"0.0"), made.signature, device.threads)
    missing = source(DOUBLE, device.target, name="other")
    with pytest.raises(BuildError, match="has no kernel other_p0 in this program"):
        device.load(obj, missing.signature, device.threads)


def test_one_process_uses_one_driver(device: OpenClDevice) -> None:
    from dataclasses import replace

    from tilewright.devices.opencl.session import ClSession

    device.open()
    other = replace(device.found, about={**device.found.about, "platform": "Another"})
    with pytest.raises(DeviceError, match="cannot be opened: this process uses another OpenCL driver already"):
        ClSession(other)


def test_a_processors_limits_are_those_of_the_device_cpu(device: OpenClDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    from tilewright.devices.limits import Cached, Limits, Rates, path, write

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert device.limits() is None
    known = Limits("2026-01-31", {1: Rates(1e11, 5e10, 1e10, 9e9, 9e9, 1e10, 1e10, (Cached(1024, 1e11, 1e11),))})
    cpu: Any = type(devices.get("cpu"))
    write(path(cpu(tilewright.targets.machine())._identity()), known, {})
    assert device.limits() == known


def test_a_gpus_limits_are_measured_in_another_process_and_kept(
    device: OpenClDevice, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    from dataclasses import replace

    from tilewright.devices import Limits, Rates

    gpu = OpenClDevice()
    gpu.__dict__["_target"] = replace(device.target, kind="gpu")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert gpu.limits() is None
    measured = Limits("2026-01-31", {gpu.threads: Rates(1e11, 5e10, 1e10, 9e9, 9e9, 1e10, 1e10)})
    asked: list[float] = []
    monkeypatch.setattr("tilewright.devices.opencl.probe.probe", lambda spec, seconds: asked.append(seconds) or measured)
    assert gpu.limits(probe=1.5) == measured == gpu.limits()
    assert asked == [1.5]
    monkeypatch.setattr(
        "tilewright.devices.opencl.probe.probe",
        lambda spec, seconds: Limits("2026-02-01", {gpu.threads: Rates(9e10, 6e10, 1e10, 9e9, 9e9, 1e10, 1e10)}),
    )
    assert gpu.limits(probe=True) == Limits("2026-02-01", {gpu.threads: Rates(1e11, 6e10, 1e10, 9e9, 9e9, 1e10, 1e10)})


def test_a_probe_ends_in_time(device: OpenClDevice) -> None:
    from tilewright.devices.opencl import probe

    s = device.open()
    program = s.compile("kernel void nothing(global int *x) { *x = 1; }")
    runs: list[float] = []
    real = s.cl.enqueue_nd_range_kernel

    class Counting:
        Kernel = s.cl.Kernel

        @staticmethod
        def enqueue_nd_range_kernel(*args: Any) -> Any:
            runs.append(0.0)
            return real(*args)

    counted: Any = type("S", (), {"cl": Counting, "queue": s.queue})
    handle = s.add(64)
    try:
        for limit_s, count in ((0.0, probe._LEAST), (60.0, probe._RUNS)):
            runs.clear()
            assert probe._best(counted, program, "nothing", [s.buffers[handle]], 1, 1, limit_s) > 0.0
            assert len(runs) == count
    finally:
        s.drop(handle)


def test_a_probe_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.devices.opencl.probe import probe

    with pytest.raises(DeviceError, match="the limits of opencl:nothing could not be measured: no OpenCL device 'nothing'"):
        probe("opencl:nothing", 1.0)


# rendered kernels ----------------------------------------------------------------------------------------------------
def agrees(device: OpenClDevice, name: str, dtype: str, schedules: Sequence[Any], target: Target) -> int:
    """Run schedules at a small odd shape and compare every element with the reference; how many groups of several threads there were."""
    kernel = normalise(named_kernels.make(name, named_kernels.get(name).odd_shape, dtype))
    data = generate(kernel, {}, 1)
    expect = expectations(kernel, data, {})
    groups = 0
    for schedule in schedules:
        made = render(lower(apply(kernel, schedule, target)), target)
        arrays = [data[b.name].copy() if b.name in data else np.empty(shape(b, kernel, {}), b.dtype.np) for b in kernel.buffers]
        for b, a in zip(kernel.buffers, arrays, strict=True):
            if b.name not in data:
                a.reshape(-1).view(np.uint8).fill(0xFF)
        call(device, made, arrays)
        for b, a in zip(kernel.buffers, arrays, strict=True):
            if b.name in expect:
                verdict = check(expect[b.name], a.ctypes.data)
                assert verdict.ok, f"{schedule}: {verdict.detail}"
        groups += max(made.signature.threads) > 1
    return groups


def starts_of(name: str, dtype: str, target: Target) -> list[Any]:
    return list(starts(normalise(named_kernels.make(name, named_kernels.get(name).odd_shape, dtype)), target, target.cores))


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("matmul", "float32"),
        ("matmul", "bfloat16"),
        ("matmul", "int8"),
        ("softmax", "float16"),
        ("layernorm", "float64"),
        ("argmax", "float32"),
    ],
)
@pytest.mark.covering
def test_schedules_for_processors_agree_with_the_reference(device: OpenClDevice, name: str, dtype: str) -> None:
    agrees(device, name, dtype, starts_of(name, dtype, device.target)[:1], device.target)


@pytest.mark.many
@pytest.mark.parametrize(
    ("name", "dtype"), [("matmul", "float32"), ("softmax", "float32"), ("sum_rows", "float16"), ("transpose", "float32")]
)
def test_schedules_for_gpus_agree_with_the_reference(device: OpenClDevice, name: str, dtype: str) -> None:
    from tilewright.targets import named

    target = named("opencl-gpu")
    shared = [s for s in starts_of(name, dtype, target) if any(o.op in ("LOCAL", "GROUP") for o in s)]
    assert agrees(device, name, dtype, shared[:1], target) == 1


def test_a_split_reduction_runs_in_two_phases(device: OpenClDevice) -> None:
    agrees(device, "sum_rows", "float32", [[opt("SPLIT", "n", 16)]], device.target)


def test_large_buffers_are_memory_of_ours_until_they_are_freed(device: OpenClDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    """In huge pages, which a driver for processors does not ask for."""
    rooms: list[Any] = []

    def noted(size: int) -> HugePages:
        room = HugePages(size)
        rooms.append(weakref.ref(room))
        return room

    monkeypatch.setattr(session, "HugePages", noted)
    memory = device.memory()
    h = memory.alloc(5 << 20)
    a = np.arange(5 << 18, dtype=np.float32)
    memory.write(h, a.ctypes.data, a.nbytes)
    back = np.zeros_like(a)
    memory.read(h, back.ctypes.data, back.nbytes)
    assert (a == back).all() and rooms[0]() is not None
    memory.free(h)
    assert len(rooms) == 1 and rooms[0]() is None


@pytest.mark.slow
def test_every_float16_is_widened_and_narrowed(device: OpenClDevice) -> None:
    """As the device's own loads and stores of `half` do."""
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = every.astype(np.float32)
    with np.errstate(all="ignore"):
        odd = np.concatenate(
            [wide, np.nextafter(wide, np.float32(np.inf)), (wide + np.roll(wide, 1)) / 2, np.float32([1e9, -1e9, 6e-8, 1e-9])]
        )
        expected = odd.astype(np.float16)
    widened = tilewright.jit(lambda x: x.astype("float32") * 2)(tilewright.Tensor(every, device=POCL)).numpy()
    narrowed = tilewright.jit(lambda x: x.astype("float16"))(tilewright.Tensor(odd, device=POCL)).numpy()
    np.testing.assert_array_equal(widened, wide * 2)
    np.testing.assert_array_equal(narrowed, expected)
