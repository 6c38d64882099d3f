"""A PyTorch module leaves as a library of C, without ONNX: its bits are the captured function's, its numbers PyTorch's."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tilewright import export
from tilewright.cli import main
from tilewright.ir.errors import UsageError

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("make")), reason="it needs gcc and make")]

FILE = """
import torch

def make():
    torch.manual_seed(0)
    head = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8 * 48, 10))
    return torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), head), torch.randn(2, 3, 8, 6)
"""


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))


def test_a_module_of_a_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.py").write_text(FILE)
    out = str(tmp_path / "lib")
    assert main(["export", f"{tmp_path / 'net.py'}:make", "--name", "net", "--out", out, "--threads", "1", "--check"]) == 0
    assert "equal bits" in capfd.readouterr().out
    names: dict[str, object] = {}
    exec(FILE, names)
    module, x = names["make"]()  # type: ignore[operator]
    with torch.no_grad():
        wanted = module.eval()(x).numpy()
    np.testing.assert_allclose(export.load(out)(x.numpy()), wanted, 1e-5, 1e-5)


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    from tilewright.bridges.pytorch import export as export_module

    class Sorted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svd(x)[1] + torch.special.bessel_j0(x[0])

    with pytest.raises(UsageError, match=r"cannot be exported: aten\._linalg_svd\.default, aten\.special_bessel_j0\.default"):
        export_module(tmp_path / "lib", Sorted(), (torch.randn(4, 4),))
    assert not (tmp_path / "lib").exists()
