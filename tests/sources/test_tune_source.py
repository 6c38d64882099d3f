"""Sources are tuned as kernels are: every failure is an outcome, and only what is right is an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opencl_driver import POCL, needs_oclgrind, needs_pocl
from tilewright import best_source, tune_source
from tilewright.cli import main
from tilewright.ir.errors import BuildError, CacheMiss, DeviceError, UsageError
from tilewright.measure import Measurement
from tilewright.measure.operands import view
from tilewright.search.progress import Silent
from tilewright.sources import source_reference as preparing
from tilewright.sources import values_of
from tilewright.sources.building import CheckedSource, build, compiled_text, schedule
from tilewright.sources.on_opencl import fault
from tilewright.sources.reading import spec_of
from tilewright.sources.source_device import SourceDevice
from tilewright.sources.source_reference import ReferenceRequest, compute_here
from tilewright.sources.source_spec import signature
from tilewright.sources.source_task import PendingReference


class Seen(Silent):
    def __init__(self) -> None:
        self.found: list[Measurement] = []

    def candidate(self, measurement: Measurement) -> None:
        self.found.append(measurement)


@pytest.mark.slow
def test_every_failure_is_an_outcome_and_the_next_run_knows_it(saxpy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings: dict[str, Any] = {
        "args": saxpy / "spec.toml", "params": {"TILE": [8], "MODE": "0..5"}, "check": f"{saxpy / 'ref.py'}:saxpy", "cache": saxpy / "c.db",
    }  # fmt: skip
    seen = Seen()
    found = tune_source(saxpy / "saxpy.c", "saxpy", progress=seen, trials=9, **settings)
    said = {values_of(m.opts)["MODE"]: (str(m.outcome.value), m.detail) for m in seen.found}
    assert {k: v[0] for k, v in said.items()} == {"0": "ok", "1": "wrong", "2": "build", "3": "crash", "4": "timeout", "5": "crash"}
    assert "elements wrong" in said["1"][1] and "saxpy.c:11" in said["2"][1] and "does not compile" in said["2"][1]
    assert "SIGSEGV" in said["3"][1] and "SIGSEGV" in said["5"][1]
    assert found.found and found.confirmed and values_of(found.opts) == {"TILE": "8", "MODE": "0"}
    # the answer is known now: to the same source, and to no other
    assert tune_source(saxpy / "saxpy.c", "saxpy", trials=9, **settings).origin == "cached"
    best = best_source(saxpy / "saxpy.c", "saxpy", **settings)
    assert best.origin == "cached" and best.defines == ("-DTILE=8", "-DMODE=0") and best.text.startswith("#define TILE 8\n#define MODE 0\n")
    with pytest.raises(CacheMiss, match="holds no answer for saxpy"):
        tune_source(saxpy / "saxpy.c", "saxpy", mode="require", **{**settings, "flags": "-O1"})
    assert main(["show", "--kernel", "saxpy", "--cache", str(saxpy / "c.db"), "--source"]) == 0
    assert capsys.readouterr().out == best.text
    assert main(["report", "--cache", str(saxpy / "c.db"), "--format", "csv"]) == 0
    assert "saxpy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ("unsure", "disagrees with itself: two runs on the same inputs gave"),
        ("short", "its shape is (3000,), and the argument's (3001,)"),
        ("fails", "TypeError: unsupported operand type(s) for /: 'float' and 'NoneType' (ref.py, line 17)"),
        ("nothing", "has no function 'nothing'"),
        ("wants", "the reference wants wants 'z'; it can take n, a, x, y by name"),
    ],
)
def test_a_reference_that_cannot_be_one(saxpy: Path, check: str, message: str) -> None:
    spec = spec_of(saxpy / "saxpy.c", "saxpy", args=saxpy / "spec.toml", check=f"{saxpy / 'ref.py'}:{check}")
    with pytest.raises(UsageError) as e:
        compute_here(ReferenceRequest(CheckedSource(spec, saxpy), SourceDevice("cpu", "c"), 1, (0,)))
    assert message in str(e.value)


def test_references_are_returned_or_changed_in_place(saxpy: Path) -> None:
    got = []
    for check in ("saxpy", "in_place"):
        spec = spec_of(saxpy / "saxpy.c", "saxpy", args=saxpy / "spec.toml", check=f"{saxpy / 'ref.py'}:{check}")
        compute_here(ReferenceRequest(CheckedSource(spec, saxpy), SourceDevice("cpu", "c"), 1, (3,)))
        got.append(np.load(saxpy / "3.y.npy"))
    assert np.array_equal(got[0], got[1]) and np.abs(got[0]).max() > 1


@pytest.mark.slow
def test_the_untuned_configuration_must_agree_with_itself(saxpy: Path) -> None:
    def failing(text: str) -> str:
        (saxpy / "saxpy.c").write_text(f"void saxpy(int n, float a, const float *x, float *y) {{ {text} }}")
        spec = spec_of(saxpy / "saxpy.c", "saxpy", args=saxpy / "spec.toml")
        with pytest.raises(UsageError) as e:
            PendingReference(CheckedSource(spec, saxpy), SourceDevice("cpu", "c"), 1, (0,), 20.0).wait()
        return str(e.value)

    assert "the untuned configuration, which is the reference, disagrees with itself" in failing("static int calls; y[0] = calls++;")
    assert "ended its process (killed by SIGSEGV): it reads or writes outside an array" in failing("((float *)x)[n] = 1;")


@pytest.mark.slow
def test_what_the_compiler_says_of_the_arguments(saxpy: Path) -> None:
    for text, message in (
        ("void saxpy(int n, float a, const float *x, float *y, int more) {}", "too few arguments to function"),
        ("void saxpy(int n, float a, const double *x, float *y) {}", "incompatible pointer type"),
        ("int saxpy;", "is not a function"),
    ):
        (saxpy / "saxpy.c").write_text(text)
        spec = spec_of(saxpy / "saxpy.c", "saxpy", args=saxpy / "spec.toml")
        with pytest.raises(BuildError, match=message) as e:
            build(CheckedSource(spec, saxpy), schedule(spec, spec.untuned), SourceDevice("cpu", "c"))
        assert "the arguments of saxpy" in str(e.value)


@pytest.mark.slow
def test_opencl_is_launched_over_its_grid_and_checked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.cl").write_text(
        """__kernel void grow(__global const float *x, __global float *y, const int n, const float s) {
    for (int k = 0; k < work; k++) {
        const int i = (get_group_id(0) * work + k) * block_size_x + get_local_id(0), j = get_group_id(1);
        if (i < n) y[j * n + i] += s * x[j * n + i];
    }
}"""
    )
    arguments = [
        {"name": "x", "dtype": "float", "shape": [3, "n"]},
        {"name": "y", "dtype": "float", "shape": [3, "n"], "role": "inout"},
        {"name": "n", "dtype": "int", "value": "n"},
        {"name": "s", "dtype": "float", "value": 1.5},
    ]
    table = {"args": arguments, "sizes": {"n": 1001}, "launch": {"grid": ["ceil(n / (block_size_x * work))", 3]}}
    try:
        device = SourceDevice("opencl", "opencl")
        device.check()
    except DeviceError as e:
        pytest.skip(str(e))
    spec = spec_of(tmp_path / "k.cl", "grow", args=table, params={"block_size_x": [16], "work": [2]})
    task = CheckedSource(spec, tmp_path)
    built = build(task, schedule(spec, spec.untuned), device)
    assert built.source.signature.grid == (32, 3, 1)  # type: ignore[attr-defined]
    PendingReference(task, device, device.threads, (0,)).wait()
    begin, host = preparing.beginnings(spec, 0), preparing.operands(spec, 0)
    x = view(host.places["x"].checked, host.places["x"].dtype, (3, 1001))
    np.testing.assert_allclose(np.load(preparing.expected_file(tmp_path, 0, "y")), begin["y"] + np.float32(1.5) * x, rtol=1e-4, atol=1e-5)
    wrong = spec_of(tmp_path / "k.cl", "grow", args={**table, "args": arguments[:3]}, params={"block_size_x": [16], "work": [2]})
    with pytest.raises(BuildError, match="grow takes 4 arguments, and 3 are given"):
        build(CheckedSource(wrong, tmp_path), schedule(wrong, wrong.untuned), device)
    arguments[3]["dtype"] = "double"
    other = spec_of(tmp_path / "k.cl", "grow", args=table, params={"block_size_x": [16], "work": [2]})
    with pytest.raises(BuildError, match="argument 4 of grow is float, and a value of float64 is given"):
        build(CheckedSource(other, tmp_path), schedule(other, other.untuned), device)
    capfd.readouterr()
    (tmp_path / "k.cl").write_text("__kernel void grow(__global const float *x) { missing; } // block_size_x work")
    broken = spec_of(tmp_path / "k.cl", "grow", args=table, params={"block_size_x": [16], "work": [2]})
    with pytest.raises(BuildError, match="missing"):
        build(CheckedSource(broken, tmp_path), schedule(broken, broken.untuned), device)
    assert capfd.readouterr() == ("", ""), "what the driver's compiler says beside its log is not shown"


@pytest.mark.slow
def test_memory_of_groups_and_vectors_are_arguments_of_opencl(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(
        """__kernel void turn(__global const float4 *x, __global float4 *y, __local float4 *t, const float3 s) {
    const int i = get_local_id(0), at = get_group_id(0) * block_size_x;
    t[i] = x[at + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    y[at + i] = t[block_size_x - 1 - i] * (float4)(s, 1.0f);
}
__kernel void pictured(__global float4 *y, __read_only image2d_t p) {}"""
    )
    arguments: list[dict[str, Any]] = [
        {"name": "x", "dtype": "float", "shape": [64, 4]},
        {"name": "y", "dtype": "float", "shape": [64, 4], "role": "out"},
        {"name": "t", "dtype": "float", "shape": ["block_size_x", 4], "role": "local"},
        {"name": "s", "dtype": "float", "value": [1, 2, "block_size_x"]},
    ]
    try:
        device = SourceDevice("opencl", "opencl")
        device.check()
    except DeviceError as e:
        pytest.skip(str(e))

    def made(function: str = "turn", **changed: Any) -> Any:
        args = [{**a, **changed.get(a["name"], {})} for a in arguments if function == "turn" or a["name"] in "ys"]
        table = {"args": args, "launch": {"grid": ["64 / block_size_x"]}}
        spec = spec_of(tmp_path / "k.cl", function, args=table, params={"block_size_x": [16]})
        return spec, build(CheckedSource(spec, tmp_path), schedule(spec, spec.untuned), device)

    spec = made()[0]
    PendingReference(CheckedSource(spec, tmp_path), device, device.threads, (0,)).wait()
    host = preparing.operands(spec, 0)
    x = view(host.places["x"].checked, host.places["x"].dtype, (4, 16, 4))
    expected = (x[:, ::-1] * np.array([1, 2, 16, 1], np.float32)).reshape(64, 4)
    np.testing.assert_array_equal(np.load(preparing.expected_file(tmp_path, 0, "y")).reshape(64, 4), expected)
    for changed, said in (
        (
            {"t": {"role": "inout", "shape": [64]}},
            r'argument 3 of turn is __local float4\*, and an array of float32 is given.*role = "local"',
        ),
        ({"x": {"role": "local"}}, r"argument 1 of turn is float4\*, and memory of groups of float32 is given"),
        ({"s": {"value": 1}}, r"argument 4 of turn is float3, and a value of float32 is given.*value = \[1, 2, 3, 4\] for vectors"),
        ({"t": {"shape": [1 << 24]}}, r"turn takes 67108864 bytes of __local memory and .* has \d+: add a restriction"),
    ):
        with pytest.raises(BuildError, match=said):
            made(**changed)
    with pytest.raises(BuildError, match="argument 2 of pictured is image2d_t: images and samplers are not supported"):
        made("pictured")
    with pytest.raises(UsageError, match="a vector has 2, 3, 4, 8, 16 components, not 5"):
        made(s={"value": [1, 2, 3, 4, 5]})
    with pytest.raises(UsageError, match=r'role = "local" is for __local pointers of OpenCL, and this is c'):
        (tmp_path / "k.c").write_text("void turn(const float *x, float *y, float *t) { y[0] = n; }")
        c = spec_of(tmp_path / "k.c", "turn", args={"args": [{**a, "shape": [4]} for a in arguments[:3]]}, params={"n": [1]})
        signature(c, c.untuned, ())


def test_the_command_says_what_is_missing(saxpy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(saxpy / "saxpy.c")
    base = ["source", file, "--function", "saxpy", "--args", str(saxpy / "spec.toml")]
    for words, message in (
        (["source"], "name the source"),
        ([*base, "--param", "TILE=4", "--param", "TILE=8"], "--param TILE is given twice"),
        ([*base, "--param", "TILE=4,8", "--strategy", "beam"], "beam appends options of kernels"),
        ([*base, "--param", "TILE=4,8", "--device", "opencl"], "does not run C"),
        ([*base, "--shape", "n"], "write NAME=NUMBER"),
        ([*base, "--t1", "x.json"], "--t1 names the source"),
    ):
        assert main(words) == 2
        assert message in capsys.readouterr().err, words


def test_commands_know_a_source_by_file_and_function(saxpy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One of its functions has the name of a kernel."""
    file, cache = saxpy / "add.c", ["--cache", str(saxpy / "named.db")]
    file.write_text((saxpy / "saxpy.c").read_text().replace("saxpy", "add"))
    words = ["--function", "add", "--args", str(saxpy / "spec.toml"), "--param", "TILE=4,8", "--trials", "2", *cache]
    assert main(["source", str(file), *words]) == 0
    assert "look at it  tune show add.c:add --cache" in capsys.readouterr().out
    assert main(["show", "add.c:add", *cache]) == 0 and capsys.readouterr().out.startswith("add of add.c, n=")
    assert main(["show", "add", *cache]) == 0 and capsys.readouterr().out.startswith("add for ")
    for words, said in (
        (["explain", "add.c:add", "--dtype", "float32"], "--dtype is for kernels, and add.c:add is a source"),
        (["bench", "add.c:add", "--against", "numpy"], "a source is compared with its own configurations"),
        (["pin", "add.c:add", "--opts", "TILE=9"], "parameter TILE has no value 9; it has 4, 8"),
        (["pin", "add.c:add", "--opts", "Un4"], "write start, best or values such as 'TILE="),
        (["explain", "sub.c:add"], "the cache does not say how add of sub.c is called: tune source sub.c --function add"),
    ):
        assert main([*words, *cache]) == 2 and said in capsys.readouterr().err, words
    page = saxpy / "report.html"
    assert main(["report", "--html", str(page), *cache]) == 0
    assert "tune show add.c:add" in page.read_text() and "tune run --kernel add" not in page.read_text() and "n=" in page.read_text()
    capsys.readouterr()
    for refused in (
        ["run", "add.c:add"],
        ["export", "add.c:add", "--out", str(saxpy / "library")],
        ["cache", "explain", "add.c:add"],
    ):
        assert main([*refused, *cache]) == 2
        assert "add.c:add is a source, which has parameters and no options: tune source add.c --function add" in capsys.readouterr().err
    assert main(["graph", "add.c:add"]) == 2 and "add.c:add is a source" in capsys.readouterr().err
    assert main(["report", *cache]) == 0 and "tile" not in capsys.readouterr().out
    assert main(["show", "sub.c:add", *cache]) == 2
    assert "the cache holds no answer for add of sub.c: tune source sub.c --function add finds one" in capsys.readouterr().err


def test_configurations_are_compared_and_pinned(saxpy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = ["--cache", str(saxpy / "pinned.db")]
    words = ["--function", "saxpy", "--args", str(saxpy / "spec.toml"), "--param", "TILE=2,4,8", "--restrict", "TILE < 8", "--trials", "2"]
    assert main(["source", str(saxpy / "saxpy.c"), *words, *cache]) == 0
    capsys.readouterr()
    assert main(["show", "saxpy", "--source", *cache]) == 0
    best, other = ("TILE=2", "TILE=4") if "TILE 2" in capsys.readouterr().out else ("TILE=4", "TILE=2")
    assert main(["explain", "saxpy.c:saxpy", "--budget", "1ms", "--format", "json", *cache]) == 0
    first, second = json.loads(capsys.readouterr().out)["schedules"]
    assert first["name"] == "best" and best.split("=")[1] in first["short"] and second["beside"]["rounds"] >= 3
    assert main(["pin", "saxpy", "--opts", other, *cache]) == 0
    assert f"opts  {other}" in capsys.readouterr().out
    assert main(["show", "saxpy", *cache]) == 0 and other in capsys.readouterr().out
    assert main(["pin", "saxpy", "--opts", "TILE=8", *cache]) == 2
    assert "the restriction 'TILE < 8' refuses TILE=8" in capsys.readouterr().err
    assert main(["unpin", "saxpy", *cache]) == 0 and other in capsys.readouterr().out
    assert main(["show", "saxpy", *cache]) == 0 and best in capsys.readouterr().out


SHIFT = """__kernel void shift(__global const float *x, __global float *y) {
    __local float t[16];
    const int i = get_local_id(0), at = get_group_id(0) * 16;
    t[i] = x[at + i];
    if (BARRIER) barrier(CLK_LOCAL_MEM_FENCE);
    y[at + i] = t[i ? i - 1 : 0];
}"""


@pytest.mark.slow
@needs_pocl
@needs_oclgrind
def test_a_kernel_without_its_barrier_does_not_win(tmp_path: Path) -> None:
    """A driver for processors runs the threads of a group one after the other, so its results are right."""
    (tmp_path / "k.cl").write_text(SHIFT)
    arguments = [{"name": "x", "dtype": "float", "shape": [64]}, {"name": "y", "dtype": "float", "shape": [64], "role": "out"}]
    table = {"args": arguments, "launch": {"block": [16], "grid": [4]}}
    about: dict[str, Any] = {"args": table, "device": POCL, "cache": tmp_path / "cache.db"}
    found = tune_source(tmp_path / "k.cl", "shift", params={"BARRIER": [0]}, trials=1, **about)
    assert not found.found and "Oclgrind: Read-write data race at local memory" in str(found.failures)
    spec = spec_of(tmp_path / "k.cl", "shift", args=table, params={"BARRIER": [1]})
    text, called = compiled_text(spec, {"BARRIER": "1"}), signature(spec, spec.untuned, ())
    assert fault(text, called, [preparing.beginning(spec, a, 0) for a in spec.arrays], 60.0) == ""
