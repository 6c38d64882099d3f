"""Texts that a person wrote may begin with the mark that some editors put there, wherever one is read."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tilewright.files.write_file import decoded, read

MARK = "\ufeff"
C = "void f(int n, float *y) {\n#ifdef TWICE\n#endif\n  for (int i = 0; i < n; i++) y[i] = 1;\n}\n"
ARGS = """
[sizes]
n = 10
[[args]]
name = "n"
dtype = "int"
value = "n"
[[args]]
name = "y"
dtype = "float32"
shape = ["n"]
role = "out"
"""
MANIFEST = '[targets.here]\ndevice = "cpu"\n[[kernel]]\nname = "add"\nshapes = [{ m = 8, n = 8 }]\n'
SWEEP = """
[targets.here]
device = "cpu"
[[kernel]]
name = "add"
shape = { m = "b", n = "8" }
[[model]]
name = "one"
values = { b = [8] }
"""
T4 = {
    "results": [{"configuration": {"A": 1}, "times": {"runtimes": [1.0]}, "measurements": [{"name": "time", "value": 1.0, "unit": "ms"}]}]
}


def source(folder: Path, mark: str) -> object:
    from tilewright.sources.reading import spec_of

    (folder / "f.c").write_text(mark + C)
    (folder / "a.toml").write_text(mark + ARGS)
    (folder / "inside.h").write_text(mark + "#define TWO 2\n")
    return spec_of(folder / "f.c", "f", args=str(folder / "a.toml"), params={"TWICE": [0, 1]}).text


def manifest(folder: Path, mark: str) -> object:
    from tilewright.search.manifest import manifest_file as manifests

    (folder / "k.toml").write_text(mark + MANIFEST)
    return [e.kernel for e in manifests.load(str(folder / "k.toml")).entries]


def t1(folder: Path, mark: str) -> object:
    from tilewright.sources import t1
    from tilewright.sources import t1 as t1_writing
    from tilewright.sources.reading import spec_of

    (folder / "f.c").write_text(C)
    (folder / "a.toml").write_text(ARGS)
    spec = spec_of(folder / "f.c", "f", args=str(folder / "a.toml"), params={"TWICE": [0, 1]})
    (folder / "t1.json").write_text(mark + t1_writing.write(spec))
    return t1.read(folder / "t1.json").spec.function


def space(folder: Path, mark: str) -> object:
    from tilewright.search.bench.space_files import load

    data = {"tune_params_keys": ["A"], "cache": {"1": {"A": 1, "time": 2.0}, "2": {"A": 2, "time": 3.0}}}
    (folder / "s.json").write_text(mark + json.dumps(data))
    return len(load(folder / "s.json").entries)


READERS: dict[str, Callable[[Path, str], object]] = {"source": source, "manifest": manifest, "t1": t1, "space": space}


@pytest.mark.parametrize("reader", READERS)
def test_a_mark_at_the_beginning_changes_nothing(reader: str, tmp_path: Path) -> None:
    assert READERS[reader](tmp_path, MARK) == READERS[reader](tmp_path, "")


def test_lines_end_as_everywhere(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    assert read(tmp_path / "x") == "a\nb\nc\n" and decoded(b"a") == "a"
    with pytest.raises(UnicodeDecodeError):
        decoded(b"\xff")


def test_a_source_with_a_mark_is_tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from tilewright.cli import main

    assert sys.platform
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "c.db"))
    (tmp_path / "f.c").write_text(MARK + C)
    (tmp_path / "a.toml").write_text(MARK + ARGS)
    words = ["source", str(tmp_path / "f.c"), "--function", "f", "--param", "TWICE=0,1", "--args", str(tmp_path / "a.toml")]
    assert main([*words, "--build-only"]) == 0, capsys.readouterr().err
    capsys.readouterr()
    for more in ("--rtol=inf", "--rtol=nan", "--atol=inf", "--rtol=-1"):
        assert main([*words, more, "--trials", "1"]) == 2
        assert "give a finite number that is not negative" in capsys.readouterr().err


def test_a_manifests_start_schedule_has_64_bits(tmp_path: Path) -> None:
    from tilewright.ir.errors import UsageError
    from tilewright.search.manifest import manifest_file as manifests

    for key in ("random-seed", "trials"):
        (tmp_path / "k.toml").write_text(f"[defaults]\n{key} = {1 << 63}\n{MANIFEST}")
        with pytest.raises(UsageError, match=rf"{key} must be a whole number of at least . \(and of 64 bits\)"):
            manifests.load(str(tmp_path / "k.toml"))
        (tmp_path / "k.toml").write_text(f"[defaults]\n{key} = {(1 << 63) - 1}\n{MANIFEST}")
        assert manifests.load(str(tmp_path / "k.toml")).entries
