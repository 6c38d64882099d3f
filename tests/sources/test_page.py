"""docs/sources.md: its files are whole, its commands mean something, and its example builds and agrees with its reference."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from tilewright.cli.commands import build_parser
from tilewright.cli.tuning.source import spec_from
from tilewright.sources.building import CheckedSource
from tilewright.sources.reading import SECTIONS
from tilewright.sources.source_device import SourceDevice
from tilewright.sources.source_reference import ReferenceRequest, compute_here

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sources.md").read_text()


@pytest.mark.slow
def test_the_example_is_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks = dict(re.findall(r"^(?:The source|What [^`\n]*), `([\w.]+)`[^\n]*\n\n```\w+\n(.*?)^```", PAGE, re.M | re.S))
    assert set(blocks) == {"saxpy.c", "spec.toml", "reference.py"}
    monkeypatch.chdir(tmp_path)
    for name, text in blocks.items():
        Path(name).write_text(text)
    lines = [line for line in PAGE.splitlines() if line.startswith("tune source saxpy.c")]
    assert len(lines) == 2
    results = []
    for i, line in enumerate(lines):
        spec, *_ = spec_from(build_parser().parse_args(shlex.split(line)[1:]))
        assert spec.lattice.size == (3 * 4 if i == 0 else 8 * 3) and spec.values(spec.untuned)["TILE"] == 8
        (tmp_path / str(i)).mkdir()
        compute_here(ReferenceRequest(CheckedSource(spec, tmp_path / str(i)), SourceDevice("cpu", "c"), 1, (0,)))
        results.append(np.load(tmp_path / str(i) / "0.y.npy"))
    # the first has the page's reference, the second the untuned configuration
    np.testing.assert_allclose(results[0], results[1], rtol=1e-5, atol=1e-5)


def test_every_section_of_the_args_file_is_told() -> None:
    assert all(f"`{s}`" in PAGE or f"[{s}]" in PAGE for s in SECTIONS)
