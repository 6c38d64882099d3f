"""The device cpu:c: which compiler, what it refuses, threads, and agreement with cpu in every bit on random schedules."""

from __future__ import annotations

import errno
import random
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import guarded
import numpy as np
import pytest
import random_schedules
from checks import in_child
from hand_built import matmul
from random_schedules import Case
from tilewright import devices, named_kernels, targets
from tilewright.devices import Device
from tilewright.devices.cpu import c_compiler as cc
from tilewright.ir import BuildError, DeviceError, OptError
from tilewright.lower import lower
from tilewright.measure.inputs import generate, shape
from tilewright.opts import apply
from tilewright.renderers import Source, render

HOST = targets.host()
KERNELS = (
    "matmul", "matmul_bias_gelu", "matvec", "softmax", "cross_entropy", "transpose", "conv2d", "argmax", "cumsum", "embedding_grad", "attention", "min_max",
)  # fmt: skip
HALF = ("matmul", "gelu", "sum_rows")


@pytest.fixture
def cpu_c() -> Device:
    device = devices.get("cpu:c")
    try:
        device.check()
    except DeviceError as e:
        pytest.skip(str(e))
    return device


@pytest.fixture
def fresh() -> Iterator[None]:
    """The compiler is looked for anew."""
    cc._find.cache_clear()
    yield
    cc._find.cache_clear()


# agreement ----------------------------------------------------------------------------------------------------------------
def outputs(case: Case, source: Source, device: Device) -> dict[str, bytes]:
    """What one device computes, as bytes by name; workspace and scratch begin as NaN."""
    exe = device.load(device.build(source), source.signature, case.threads)
    given = generate(case.kernel, case.vars, case.seed)
    arrays: dict[str, Any] = {}
    for b in case.kernel.buffers:
        arrays[b.name] = (
            np.ascontiguousarray(given[b.name]) if b.name in given else np.full(shape(b, case.kernel, case.vars), 7, b.dtype.np)
        )
    exe.poison()
    with guarded.copies([arrays[b.name] for b in case.kernel.buffers]) as inside:
        exe.run([a.ctypes.data for a in inside], [case.vars[s] for s in source.signature.symbols])
    return {b.name: arrays[b.name].tobytes() for b in case.kernel.outputs}


def differ(case: Case) -> str:
    """Which outputs of `cpu` and `cpu:c` differ, or ''."""
    program = lower(apply(case.kernel, case.opts, case.target))
    got = [
        outputs(case, render(program, replace(case.target, lang=lang)), devices.get(name))
        for lang, name in (("llvm", "cpu"), ("c", "cpu:c"))
    ]
    return ", ".join(name for name in got[0] if got[0][name] != got[1][name])


def examine(name: str, rng: random.Random, dtype: str | None = None) -> None:
    for _ in range(40):
        case = random_schedules.draw(name, rng.randrange, host_only=True)
        if dtype is None or case.dtype == dtype:
            break
    try:
        lower(apply(case.kernel, case.opts, case.target))
    except OptError:
        return
    said = in_child(lambda: differ(case))
    assert not said, f"{case}\n{said}"


@pytest.mark.many
@pytest.mark.parametrize("name", KERNELS)
def test_random_schedules_agree_with_llvm_in_every_bit(name: str, cpu_c: Device, request: pytest.FixtureRequest) -> None:
    asked = request.config.getoption("--examples")
    rng = random.Random(None if asked else f"c {name}")
    for _ in range(asked or 1):
        examine(name, rng)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", HALF)
def test_half_types_agree_with_llvm_in_every_bit(name: str, dtype: str, cpu_c: Device, request: pytest.FixtureRequest) -> None:
    if dtype not in named_kernels.get(name).dtypes:
        pytest.skip(f"{name} has no {dtype}")
    asked = request.config.getoption("--examples")
    rng = random.Random(None if asked else f"c {name} {dtype}")
    for _ in range(asked or 1):
        examine(name, rng, dtype)


# the device -----------------------------------------------------------------------------------------------------------------
def test_it_is_this_machine_in_another_language(cpu_c: Device) -> None:
    cpu = devices.get("cpu")
    assert cpu_c.target == replace(cpu.target, lang="c") and cpu_c.target.key != cpu.target.key
    assert cpu_c.name == cpu_c.spec == "cpu:c" and cpu_c.threads == cpu.threads and cpu_c.isolation == "fork"
    found = cc.find()
    assert cpu_c.compiler_id() == found.id and found.version in found.id and found.kind in ("gcc", "clang")
    assert cpu_c.fingerprint()["compiler"] == found.id and cpu_c.fingerprint()["device"] == "cpu:c"


@pytest.mark.parametrize("threads", [1, 2])
def test_it_runs_and_times_in_the_pool(cpu_c: Device, threads: int) -> None:
    m, n, k = 24, 96, 70
    source = render(matmul(m, n, k), cpu_c.target)
    exe = cpu_c.load(cpu_c.build(source), source.signature, threads)
    a, b, c = (guarded.array(np.random.default_rng(0).normal(size=s).astype("float32")) for s in ((m, k), (k, n), (m, n)))
    exe.run([x.ctypes.data for x in (a, b, c)])
    np.testing.assert_allclose(c, a.astype("float64") @ b, rtol=1e-4, atol=1e-4)
    assert len(exe.time([[x.ctypes.data for x in (a, b, c)]], (), 5)) == 5
    exe.close()


def test_a_name_that_c_cannot_hold(cpu_c: Device) -> None:
    program = matmul(8, 32, 4)
    program.name = "3 words, of text"
    source = render(program, cpu_c.target)
    exe = cpu_c.load(cpu_c.build(source), source.signature, 1)
    a, b, c = map(guarded.array, (np.ones((8, 4), "float32"), np.ones((4, 32), "float32"), np.zeros((8, 32), "float32")))
    exe.run([x.ctypes.data for x in (a, b, c)])
    assert (c == 4).all()


def test_other_languages_and_machines_are_refused(cpu_c: Device) -> None:
    program = matmul(8, 32, 4)
    with pytest.raises(BuildError, match="cpu:c device builds C, not llvm"):
        cpu_c.build(render(program, HOST))
    other = replace(targets.named("neon" if HOST.arch == "x86_64" else "avx2"), lang="c")
    with pytest.raises(BuildError, match=f"builds for {HOST.arch}, not for {other.arch}"):
        cpu_c.build(render(program, other))


def broken(device: Device, text: str) -> str:
    source = render(matmul(8, 32, 4), device.target)
    with pytest.raises(BuildError) as caught:
        device.build(replace(source, text=text))
    return str(caught.value)


def test_what_the_compiler_says_is_the_error(cpu_c: Device) -> None:
    said = broken(cpu_c, "void matmul_p0(void) {\n    wobble;\n}\n" + "int a = b;\n" * 50)
    assert "rejects the source" in said and "wobble" in said and said.endswith("…") and len(said.splitlines()) < 12


def test_a_call_out_of_the_object_is_an_error(cpu_c: Device) -> None:
    assert "the object needs outside" in broken(cpu_c, "void outside(void);\nvoid matmul_p0(void) { outside(); }\n")


# compilers ------------------------------------------------------------------------------------------------------------------
def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.usefixtures("fresh")
def test_cc_is_asked_first_and_may_hold_arguments(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cpu_c: Device) -> None:
    real = next((c for c in map(shutil.which, ("gcc", "clang")) if c), None)
    if real is None:
        pytest.skip("neither gcc nor clang is here")
    mine = script(tmp_path / "mycc", f'shift\nexec {real} "$@"')
    monkeypatch.setenv("CC", f"{mine} --first")
    assert cc.find().command == (str(mine), "--first")
    source = render(matmul(8, 32, 4), cpu_c.target)
    assert cpu_c.build(source)


@pytest.mark.usefixtures("fresh")
def test_no_compiler_is_said_with_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DeviceError, match=r"no C compiler here: install gcc or clang .*tilewright\[zig\].*CC"):
        devices.get("cpu:c").check()
    monkeypatch.setenv("CC", "nowhere-cc")
    with pytest.raises(DeviceError, match="CC names nowhere-cc, which is not there"):
        devices.get("cpu:c").check()


@pytest.mark.parametrize(
    ("error", "fix"),
    [
        (PermissionError(errno.EPERM, "Operation not permitted"), "let this process start others"),  # as a filter of system calls answers
        (BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"), "free some memory or processes"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), "install gcc or clang"),
        (PermissionError(errno.EACCES, "Permission denied"), "install gcc or clang"),
    ],
)
def test_a_compiler_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, error: OSError, fix: str) -> None:
    """Another compiler does not help where no process may be started."""

    def refused(*args: object, **how: object) -> None:
        raise error

    monkeypatch.setattr(cc.subprocess, "run", refused)
    with pytest.raises(DeviceError, match=fix) as said:
        cc.run(("gcc", "--version"), tmp_path)
    assert ("install" in str(said.value)) == fix.startswith("install")


@pytest.mark.usefixtures("fresh")
def test_other_c_compilers_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", str(script(tmp_path / "tcc", 'echo "#define __TINYC__ 927"')))
    with pytest.raises(DeviceError, match="neither gcc nor clang"):
        cc.find()


@pytest.mark.usefixtures("fresh")
def test_a_stuck_compiler_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cc, "TIMEOUT_S", 0.2)
    stuck = cc.Compiler((str(script(tmp_path / "gcc", "exec sleep 20")),), "gcc", "12")
    with pytest.raises(BuildError, match="took longer than"):
        cc.compile_c("int x;", HOST, stuck)


def test_flags_follow_from_the_target_alone() -> None:
    gcc, zig = cc.Compiler(("gcc",), "gcc", "12"), cc.Compiler((sys.executable, "-m", "ziglang", "cc"), "clang", "22")
    avx2 = cc.flags(targets.named("avx2"), gcc)
    assert {"-march=x86-64", "-mavx2", "-mfma", "-mf16c", "-ffp-contract=off"} <= set(avx2) and "-mavx512f" not in avx2
    assert {"-mavx512f", "-mavx512vl"} <= set(cc.flags(targets.named("cascadelake"), gcc))
    assert "-march=x86_64" in cc.flags(targets.named("avx2"), zig) and zig.id == "zig-clang-22"
    assert not [f for f in cc.flags(targets.named("neon"), gcc) if f.startswith("-mavx")]
