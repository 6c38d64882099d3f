"""A spec is what was given, and what does not fit is said before anything is compiled."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from tilewright import targets
from tilewright.ir.errors import BuildError, OptError, UsageError
from tilewright.opts import opt
from tilewright.sources import on_cpu
from tilewright.sources.building import ParameterEngine, compiled_text, definitions, plain_text, point, schedule
from tilewright.sources.parameters import parse
from tilewright.sources.reading import spec_of
from tilewright.sources.source_spec import SourceSpec, number, signature

KERNEL = """
#define TILE 4
__kernel void add(__global const float *a, __global float *b, int n) { }
"""
ARRAYS = [
    {"name": "a", "dtype": "float", "shape": ["n", "m"]},
    {"name": "b", "dtype": "float", "shape": "n * m", "role": "out"},
    {"name": "n", "dtype": "int", "value": "n // TILE"},
]


def saxpy_spec(folder: Path, **settings: Any) -> SourceSpec:
    more = {"args": folder / "spec.toml", "params": {"TILE": "4,8,16"}, **settings}
    return spec_of(folder / "saxpy.c", "saxpy", **more)


def test_a_definition_of_the_source_is_what_it_is_untuned(saxpy: Path) -> None:
    spec = saxpy_spec(saxpy, params={"TILE": [4, 8], "MODE": [0]}, flag_params={"OPT": ["-O1", "-O2 -g"]}, flags="-DX=1")
    assert [(p.name, p.default) for p in spec.parameters] == [("TILE", 8), ("MODE", 0), ("OPT", "-O1")]
    assert spec.values(spec.untuned) == {"n": 3001, "TILE": 8, "MODE": 0, "OPT": "-O1"} and spec.bytes() == 3 * 3001 * 4
    texts = {"TILE": "4", "MODE": "0", "OPT": "-O2 -g"}
    assert definitions(spec, texts) == "#define TILE 4\n#define MODE 0\n"
    assert plain_text(spec, texts).splitlines()[0] == "/* flags: -DX=1 -O2 -g */" and "untuned" not in plain_text(spec, texts)
    # lines keep their numbers: what stands in line 5 does so under #line 1
    text = compiled_text(spec, texts)
    after = text.split('#line 1 "saxpy.c"\n')[1].splitlines()
    assert after[4] == spec.text.splitlines()[4] and "saxpy(*(int const *)tilewright_p[0], *(float const *)tilewright_p[1]" in text
    assert spec.identity() != saxpy_spec(saxpy, params={"TILE": [4, 8], "MODE": [0]}).identity()


def test_a_launch_is_what_expressions_give(tmp_path: Path) -> None:
    (tmp_path / "k.cl").write_text(KERNEL)
    settings: dict[str, Any] = {"args": ARRAYS, "sizes": {"n": 100, "m": 3}, "params": {"block_size_x": [8, 16], "TILE": [1, 4]}}
    spec = spec_of(tmp_path / "k.cl", "add", **settings, problem=["n", "m"])
    made = signature(spec, spec.at({"block_size_x": "16", "TILE": "4"}), ())
    assert (made.block, made.grid, made.sizes) == ((16, 1, 1), (7, 3, 1), (1200, 1200))
    assert [x if isinstance(x, int) else number(x) for x in made.order] == [0, 1, 25] and made.restore == ()
    given = spec_of(tmp_path / "k.cl", "add", **settings, block=["block_size_x", "2"], grid="ceil(n / (block_size_x * TILE))")
    assert signature(given, given.untuned, ()).grid == (4, 1, 1) and signature(given, given.untuned, ()).block == (8, 2, 1)
    with pytest.raises(UsageError, match="must be a whole number"):
        signature(spec_of(tmp_path / "k.cl", "add", **settings, grid="n / block_size_x"), (0, 0), ())


def test_schedules_are_configurations(saxpy: Path) -> None:
    spec = saxpy_spec(saxpy, restrict=["TILE != 16"])
    engine = ParameterEngine(spec)
    assert engine.starts() == [(opt("SET", "TILE", to="8"),)] and point(spec, schedule(spec, (0,))) == (0,)
    assert [engine.templates()[0].make({"TILE": v}) for v in (4, 8)] == [schedule(spec, at) for at in spec.lattice]
    for opts, message in (
        ((opt("SET", "TILE", to="16"),), r"the restriction .* refuses TILE=16"),
        ((opt("SET", "TILE", to="5"),), "no value 5"),
        ((opt("TILE", "n", 8),), "no options of kernels"),
        ((), "a value for each of TILE"),
    ):
        with pytest.raises(OptError, match=message):
            engine.apply(opts)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"params": {"TILES": [1]}}, "the parameter TILES is nowhere in"),
        ({"params": {"n": [1]}}, "n is a parameter and a size"),
        ({"restrict": ["TILE % UNROL == 0"]}, "there is no parameter or size 'UNROL'"),
        ({"args": None}, "say what saxpy is called with"),
        ({"args": [{"nam": "x"}]}, "argument 1: unknown key 'nam'; did you mean name?"),
        ({"args": [{"name": "x", "dtype": "floot"}]}, "unknown dtype 'floot'"),
        ({"args": [{"name": "x", "dtype": "float"}]}, "argument x needs a shape"),
        ({"args": [{"name": "x", "dtype": "float", "shape": ["k"]}]}, "there is no parameter or size 'k'"),
        ({"args": [{"name": "x", "dtype": "float", "shape": [4], "role": "inn"}]}, "role is one of in, out, inout"),
        ({"args": [{"name": "x", "dtype": "float", "shape": [4], "make": "gauss"}]}, "make is one of normal"),
        ({"args": [{"name": "x", "dtype": "float", "shape": [0]}]}, "at least 1"),
        ({"args": [{"name": "x", "dtype": "float", "value": 1, "role": "in"}]}, "so it is a scalar"),
        ({"args": [{"name": "x", "dtype": "float", "value": 1}] * 2}, "two arguments are called x"),
        ({"args": "nowhere.toml"}, "cannot read nowhere.toml"),
        ({"check": "ref"}, "write file.py:function"),
        ({"check": "nowhere.py:f"}, "there is no file nowhere.py"),
        ({"block": ["TILE"]}, "block and grid are for OpenCL and CUDA"),
        ({"rtoll": 1}, "no setting 'rtoll'"),
    ],
)
def test_what_does_not_fit_is_said(saxpy: Path, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        saxpy_spec(saxpy, **settings)


def test_a_source_that_is_none(saxpy: Path) -> None:
    for file, function, message in (
        ("nowhere.c", "f", "cannot read"),
        ("ref.py", "f", "the language is told by the suffix"),
        ("space.json", "f", "a T1 file is given by --t1"),
        ("saxpy.c", "daxpy", "has no function 'daxpy'"),
        ("saxpy.c", "", "name the function"),
    ):
        with pytest.raises(UsageError, match=message):
            spec_of(saxpy / file, function, args=saxpy / "spec.toml")


def test_cuda_keeps_the_kernels_name(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "template <int W> __global__ void other(float *b) { b[0] = W; }\n"
        '__global__ void __launch_bounds__(64) add(const float *a, float *b, int n) {}\nextern "C" __global__ void third() {}\n'
    )
    spec = spec_of(tmp_path / "k.cu", "add", args=ARRAYS, sizes={"n": 8, "m": 1}, params={"TILE": [1]}, block="TILE", grid=1)
    text = compiled_text(spec, {"TILE": "1"})
    assert 'extern "C" __global__ void __launch_bounds__(64) add(' in text and "template <int W> __global__ void other" in text
    assert parse("TILE=1").texts == ("1",)


def test_a_library_is_loaded_where_no_file_in_memory_may_be_made(saxpy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As behind a filter of system calls; every configuration was a crash, and none valid."""

    def forbidden(*args: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    spec = saxpy_spec(saxpy)
    made = signature(spec, spec.untuned, ())
    target = targets.machine()
    obj = on_cpu.build(compiled_text(spec, {"TILE": "8"}), made, target)
    monkeypatch.setattr(os, "memfd_create", forbidden)
    monkeypatch.setattr(tempfile, "tempdir", str(folder := saxpy / "temporary"))
    folder.mkdir()
    on_cpu.CpuSource(obj, made, 1)
    assert not list(folder.iterdir())
    with pytest.raises(BuildError, match="the built library does not load"):
        on_cpu.CpuSource(obj[:100], made, 1)
