"""What cannot be exported is refused by name, and files of others stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilewright import Tensor, export, nn, xp
from tilewright.ir.errors import UsageError


def normal(*shape: int) -> Any:
    return np.random.default_rng([*shape]).standard_normal(shape).astype(np.float32)


W, KERNEL = Tensor(normal(24, 10)), Tensor(normal(4, 3, 3, 3))


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))


def perceptron(x: Tensor) -> Tensor:
    return (x @ W).softmax(-1)


def convolution(x: Tensor) -> Tensor:
    return nn.conv(x, KERNEL, padding=1).relu()


def test_what_needs_python_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="NumPy computes searchsorted"):
        export.write(tmp_path / "lib", lambda x: xp.searchsorted(x, x), normal(9))
    assert not (tmp_path / "lib").exists()


def test_files_of_others_stay(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="files that no export made"):
        export.write(tmp_path / "lib", perceptron, normal(7, 24))
    assert [p.name for p in (tmp_path / "lib").iterdir()] == ["mine.txt"]
    export.write(tmp_path / "new", perceptron, normal(7, 24))
    (tmp_path / "new" / "mine.txt").write_text("mine")
    export.write(tmp_path / "new", convolution, normal(2, 3, 8, 8))
    there = {p.name for p in (tmp_path / "new").iterdir()}
    assert "mine.txt" in there and "convolution.h" in there and "perceptron.h" not in there
    (tmp_path / "new" / "perceptron.h").write_text("mine")
    with pytest.raises(UsageError, match=r"perceptron\.h that no export made"):
        export.write(tmp_path / "new", perceptron, normal(7, 24))
    assert {p.name for p in (tmp_path / "new").iterdir()} == there | {"perceptron.h"}
    with pytest.raises(UsageError, match="is a file: give a folder"):
        export.write(tmp_path / "new" / "mine.txt", perceptron, normal(7, 24))
    with pytest.raises(UsageError, match=r"cannot write .*mine\.txt"):
        export.write(tmp_path / "new" / "mine.txt" / "lib", perceptron, normal(7, 24))


def test_a_folder_without_an_export_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no exported library"):
        export.load(tmp_path)


def test_an_argument_by_name_is_no_option_of_an_export(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="an export has no option 'y': arguments of <lambda> are given by position"):
        export.write(tmp_path / "lib", lambda x, y: x + y, normal(2), y=normal(2))


def test_names_of_inputs_are_those_of_their_leaves(tmp_path: Path) -> None:
    """Leaves of a dict come in the order of its sorted keys; None is no leaf; arguments by name only come last."""
    x = normal(2, 3)
    tree = {"w": normal(3, 1), "b": [normal(2, 1), None, {"z": normal(1, 4), "a": normal(5, 1)}]}

    def function(p: Any, x: Tensor, flag: Any, *, y: Tensor, scale: float = 2.0) -> Any:
        return [p["w"] * scale, p["b"][0] + 1, p["b"][2]["z"] - 1, p["b"][2]["a"] * 3, x + y]

    program = export.of_function(function, (tree, x, None, x, 3.0))
    arrays = {a.name: a.shape for a in program.arrays if a.role == "input"}
    assert arrays == {"p_b_0": (2, 1), "p_b_2_a": (5, 1), "p_b_2_z": (1, 4), "p_w": (3, 1), "x": (2, 3), "y": (2, 3)}
