"""Names that say which inputs are constant."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright import named_kernels
from tilewright.ir import KernelError
from tilewright.ir.normal_form import canonical
from tilewright.ir.rewriter import with_constants


def constant(name: str) -> list[str]:
    return [b.name for b in named_kernels.make(name).inputs if b.constant]


def test_an_ending_makes_inputs_constant() -> None:
    assert constant("matmul") == []
    assert constant("matmul:constant=b") == ["b"]
    assert constant("matmul:constant=b, a") == ["a", "b"]
    assert named_kernels.get("conv2d:constant=weight").name == "conv2d:constant=weight"
    assert named_kernels.is_named("conv2d:constant=weight") and not named_kernels.is_path("conv2d:constant=weight")


def test_it_is_another_kernel_in_the_cache_but_not_by_name() -> None:
    plain, b = named_kernels.make("matmul"), named_kernels.make("matmul:constant=b")
    assert canonical(plain).hash != canonical(b).hash
    assert canonical(b).hash == canonical(with_constants(plain, ["b"])).hash
    assert with_constants(plain, []) is plain


def test_a_users_own_kernel(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from tilewright import named_kernels\n\ndef f():\n    return named_kernels.make('matmul')\n")
    assert constant(f"{file}:f:constant=a") == ["a"]
    assert named_kernels.is_path(f"{file}:f:constant=a")


@pytest.mark.parametrize(
    "name, message",
    [
        ("matmul:constant=", r"cannot read the constant inputs of 'matmul:constant='; write matmul:constant=b"),
        ("matmul:constant=b,b", "cannot read"),
        ("matmul:constant=c", r"matmul has no input 'c' that could be constant \(inputs: a, b\)"),
        ("matmull:constant=b", "unknown kernel 'matmull'; did you mean 'matmul'"),
    ],
)
def test_endings_that_mean_nothing(name: str, message: str) -> None:
    with pytest.raises(KernelError, match=message):
        named_kernels.make(name)
