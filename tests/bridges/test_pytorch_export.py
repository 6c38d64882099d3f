"""A PyTorch module leaves as a library of C, without ONNX: its bits are the captured function's, its numbers PyTorch's."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tilewright import export
from tilewright.cli import main
from tilewright.cli.functions import export_process
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
    command = ["export", f"{tmp_path / 'net.py'}:make", "--name", "net", "--out", out, "--threads", "1"]
    assert main([*command, "--shape", "n=1..16,input=nx3x8x6", "--check"]) == 0
    assert "takes n from 1 to 16, input: float32[n, 3, 8, 6]" in capfd.readouterr().out
    library = export.load(out)
    for n in (1, 5, 16):
        many = torch.randn(n, 3, 8, 6)
        with torch.no_grad():
            np.testing.assert_allclose(library(many.numpy()), module(many).numpy(), 1e-5, 1e-5)
    assert main([*command, "--shape", "n=1..16,input=nx3x8x7"]) == 2 and "and input is [2, 3, 8, 6]" in capfd.readouterr().err
    assert main([*command, "--shape", "n=1..16,image=nx3x8x6"]) == 2 and "image is none" in capfd.readouterr().err
    assert main([*command, "--shape", "n=1..16,input=2x3xnx6"]) == 2 and "torch.export cannot take" in capfd.readouterr().err


def test_inputs_by_name_have_no_order(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(f"{FILE}\n\ndef named():\n    module, x = make()\n    return module, {{'input': x}}\n")
    with pytest.raises(UsageError, match="gives inputs by name"):
        export_process._export({"path": f"{tmp_path / 'net.py'}:named", "shape": None})


class Mixer(torch.nn.Module):
    """Sizes are taken apart, put together, and counted with."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = torch.nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, n, _ = x.shape
        z = self.attend(x, y, y, need_weights=False)[0]
        mean = z.reshape(b * n, 16).sum(0) / (b * n)
        return torch.cat([z, y], 1), mean + torch.arange(n).sum()


def test_sizes_with_a_range(tmp_path: Path) -> None:
    from tilewright import Var
    from tilewright.bridges.pytorch import export as export_module

    b, n, m = Var("b", 1, 4), Var("n", 1, 20), Var("m", 2, 9)
    torch.manual_seed(1)
    module = Mixer().eval()
    symbols = {"x": {0: b, 1: n}, "y": {0: b, 1: m}}
    export_module(tmp_path / "lib", module, (torch.randn(1, 7, 16), torch.randn(1, 5, 16)), symbols=symbols, threads=1)
    assert "equal bits" in export.check(tmp_path / "lib")
    library = export.load(tmp_path / "lib")
    for sizes in ((1, 1, 2), (4, 20, 9), (2, 3, 3), (3, 1, 9)):
        x, y = torch.randn(sizes[0], sizes[1], 16), torch.randn(sizes[0], sizes[2], 16)
        with torch.no_grad():
            for have, want in zip(library(x.numpy(), y.numpy()), module(x, y), strict=True):
                np.testing.assert_allclose(have, want.numpy(), 1e-4, 1e-4)


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    from tilewright.bridges.pytorch import export as export_module

    class Sorted(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.svd(x)[1] + torch.special.bessel_j0(x[0])

    with pytest.raises(UsageError, match=r"cannot be exported: aten\._linalg_svd\.default, aten\.special_bessel_j0\.default"):
        export_module(tmp_path / "lib", Sorted(), (torch.randn(4, 4),))
    assert not (tmp_path / "lib").exists()
