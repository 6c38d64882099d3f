"""T1 files are read as they are meant, written so that reading gives the same, and what is not understood is named."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tilewright.cli.report.report import as_t4
from tilewright.ir.errors import UsageError
from tilewright.search.bench.space_files import load
from tilewright.sources import t1
from tilewright.sources.source_spec import signature
from tilewright.sources.t1 import write

DATA: dict[str, Any] = {
    "General": {"BenchmarkName": "scale"},
    "ConfigurationSpace": {
        "TuningParameters": [
            {"Name": "block_size_x", "Type": "int", "Values": "[16 * 2**i for i in range(4)]", "Default": 64},
            {"Name": "work", "Type": "int", "Values": "list(range(1, 5))"},
        ],
        "Conditions": [{"Expression": "block_size_x * work <= 128", "Parameters": ["block_size_x", "work"]}],
    },
    "Budget": [{"Type": "ConfigurationFraction", "BudgetValue": 0.5}, {"Type": "TuningDuration", "BudgetValue": 7}],
    "KernelSpecification": {
        "Language": "OpenCL",
        "KernelName": "scale",
        "KernelFile": "scale.cl",
        "CompilerOptions": ["-cl-mad-enable", "-std=c++11"],
        "LocalSize": {"X": "block_size_x", "Y": "1", "Z": "1"},
        "GridDivX": ["block_size_x", "work"],
        "ProblemSize": [1000],
        "Arguments": [
            {
                "Name": "y",
                "Type": "float4",
                "MemoryType": "Vector",
                "AccessType": "WriteOnly",
                "FillType": "Constant",
                "Size": 250,
                "FillValue": 0,
            },
            {"Name": "x", "Type": "float", "MemoryType": "Vector", "FillType": "Random", "Size": "4 * 250", "FillValue": 2.5},
            {"Name": "n", "Type": "int32", "MemoryType": "Scalar", "FillValue": 1000},
        ],
    },
}


def written(folder: Path, data: Any) -> Path:
    (folder / "scale.cl").write_text("__kernel void scale(__global float4 *y, __global const float *x, int n) { int work_ = work; }")
    (folder / "t1.json").write_text(json.dumps(data))
    return folder / "t1.json"


def changed(*path: Any, to: Any) -> Any:
    data = copy.deepcopy(DATA)
    at: Any = data
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return data


def test_a_file_is_read_and_written(tmp_path: Path) -> None:
    found = t1.read(written(tmp_path, DATA))
    spec = found.spec
    assert [(p.name, p.values, p.default) for p in spec.parameters] == [("block_size_x", (16, 32, 64, 128), 64), ("work", (1, 2, 3, 4), 1)]
    assert spec.lattice.size == 4 + 4 + 2 + 1 and (found.seconds, found.trials) == (7.0, 6)
    assert [(a.name, a.dtype.name, a.role, a.how, a.high) for a in spec.arrays] == [
        ("y", "float32", "out", "fill", 1.0), ("x", "float32", "in", "uniform", 2.5),
    ]  # fmt: skip
    made = signature(spec, spec.at({"block_size_x": "32", "work": "3"}), spec.flags)
    assert (made.grid, made.block, made.sizes) == ((11, 1, 1), (32, 1, 1), (4000, 4000)) and made.flags == ("-cl-mad-enable",)
    assert spec.notes == ("KernelSpecification: CompilerOptions: -std is ignored, because OpenCL has none (-cl-std=CL2.0 is its own)",)
    (tmp_path / "again.json").write_text(write(spec))
    again = t1.read(tmp_path / "again.json").spec
    assert list(again.lattice) == list(spec.lattice) and again.parameters == spec.parameters
    assert all(signature(again, at, ()).grid == signature(spec, at, ()).grid for at in spec.lattice)


def test_global_sizes_count_threads_or_groups(tmp_path: Path) -> None:
    data = copy.deepcopy(DATA)
    kernel = data["KernelSpecification"]
    del kernel["ProblemSize"], kernel["GridDivX"]
    kernel["GlobalSize"] = {"X": "1024", "Y": "2"}
    for kind, grid in (("OpenCL", (16, 2, 1)), ("CUDA", (1024, 2, 1))):
        kernel["GlobalSizeType"] = kind
        spec = t1.read(written(tmp_path, data)).spec
        assert signature(spec, spec.untuned, ()).grid == grid


@pytest.mark.parametrize(
    ("data", "note"),
    [
        (changed("Wishes", to=1), "the file: unknown key 'Wishes' is ignored"),
        (changed("KernelSpecification", "Foo", to=1), "KernelSpecification: unknown key 'Foo' is ignored"),
        (changed("KernelSpecification", "Arguments", 1, "Colour", to=1), "argument 2: unknown key 'Colour' is ignored"),
        (changed("ConfigurationSpace", "TuningParameters", 1, "Default", to=9), "parameter work: its Default 9 is ignored"),
        (changed("Budget", to=[{"Type": "Joules", "BudgetValue": 1}]), "Budget: the type 'Joules' is ignored"),
    ],
)
def test_what_is_ignored_is_named(tmp_path: Path, data: Any, note: str) -> None:
    assert any(n.startswith(note) for n in t1.read(written(tmp_path, data)).spec.notes)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "T1: the file must be an object"),
        ({}, "no object 'ConfigurationSpace'"),
        (changed("ConfigurationSpace", "Conditions", 0, "Expression", to="work > 9"), "'work > 9' excludes every configuration"),
        (changed("ConfigurationSpace", "TuningParameters", 0, "Values", to="__import__('os').sep"), "no list that is understood"),
        (changed("ConfigurationSpace", "Conditions", 0, "Expression", to="exit()"), "calling exit is not allowed"),
        (changed("KernelSpecification", "Language", to="Vulkan"), "OpenCL, CUDA and C can be tuned here"),
        (changed("KernelSpecification", "LocalSize", to=None), "has no LocalSize"),
        (changed("KernelSpecification", "Arguments", 1, "FillType", to="Script"), "FillType 'Script' runs code"),
        (changed("KernelSpecification", "Arguments", 1, "Type", to="custom"), "a type of one's own"),
        (changed("KernelSpecification", "Arguments", 1, "MemoryType", to="Local"), "memory of the kind Local"),
        (changed("KernelSpecification", "KernelFile", to="other.cl"), "cannot read"),
    ],
)
def test_what_cannot_be_tuned_is_an_error(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        _ = t1.read(written(tmp_path, data)).spec.lattice


def test_results_are_read_as_they_are_written(tmp_path: Path) -> None:
    from tilewright.cache import Row

    common: dict[str, Any] = {"kernel": "k", "target": "t", "threads": 1, "compiler": "c", "provenance": {"build_s": 0.5}}
    rows = [
        Row(**common, opts=(o := [["SET", "A", {"to": "8"}], ["SET", "B", {"to": "x"}]]), opts_display=o, t_min=1e-3, t_med=2e-3),
        Row(**common, opts=(o := [["SET", "A", {"to": "4"}], ["SET", "B", {"to": "x"}]]), opts_display=o, outcome="build"),
    ]
    (tmp_path / "t4.json").write_text(as_t4(rows))
    one, two = load(tmp_path / "t4.json").entries
    assert (one.params, one.t_min, one.outcome) == ({"A": 8, "B": "x"}, 1e-3, "ok") and one.cost_s == pytest.approx(0.5 + 3e-3)
    assert (two.params, two.outcome) == ({"A": 4, "B": "x"}, "build")


@pytest.mark.parametrize(("name", "count", "grid"), [("vector_add", 23, (15626, 1, 1)), ("convolution", 162, (32, 64, 1))])
def test_the_examples_are_whole(name: str, count: int, grid: tuple[int, int, int]) -> None:
    folder = Path(__file__).resolve().parents[2] / "examples" / "sources"
    spec = t1.read(folder / f"{name}.json", check=f"{folder / 'reference.py'}:{name}").spec
    assert spec.notes == () and spec.lattice.size == count and signature(spec, spec.untuned, ()).grid == grid
