"""`tune fleet` and `tune run --fleet`: what they say where there is no fleet."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tilewright.cli import main

MANIFEST = '[[kernel]]\nname = "add"\nshapes = ["m=8,n=8"]\n'


@pytest.fixture
def tune(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command; its exit code, and what it printed in all."""
    monkeypatch.setenv("TILEWRIGHT_FLEET_TLS", str(tmp_path / "tls"))
    (tmp_path / "tune.toml").write_text(MANIFEST)

    def run(*words: str) -> tuple[int, str]:
        code = main([w.replace("MANIFEST", str(tmp_path / "tune.toml")) for w in words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return run


@pytest.mark.parametrize(
    "words, why",
    [
        (("run", "matmul", "--fleet", "tls://x:1", "--against", "numpy"), "--against and --fleet do not go together"),
        (("run", "matmul", "--fleet", "tls://x:1", "--shape", "m=1..9"), "write them into a --manifest"),
        (("run", "matmul", "--fleet", "tls://x:1", "--mode", "require"), "leave out --fleet"),
        (("run", "matmul", "--slots", "2"), "--slots says how many devices of a --fleet"),
        (("run", "--manifest", "MANIFEST", "--fleet", "tls://x:1", "--mode", "require"), "needs no --fleet"),
        (("fleet", "worker", "tcp://x:1", "--no-device", "--device", "cpu"), "contradict"),
        (("fleet", "worker", "tcp://x:1", "--memory", "much"), "is not a size"),
    ],
)
def test_what_makes_no_sense_is_said(tune: Any, words: tuple[str, ...], why: str) -> None:
    code, said = tune(*words)
    assert code == 2 and why in said


@pytest.mark.parametrize("words", [("fleet", "status", "tls://x:1"), ("run", "--manifest", "MANIFEST", "--fleet", "tls://x:1")])
def test_the_extra_and_certificates_are_named_where_they_are_missing(
    tune: Any, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = tune(*words)
    assert code == 3 and "tune fleet certificates" in said
    monkeypatch.setitem(sys.modules, "distributed", None)
    code, said = tune(*words)
    assert code == 3 and "pip install 'tilewright[fleet]'" in said


def test_certificates_are_made_once_and_renewed(tune: Any, tmp_path: Path) -> None:
    code, said = tune("fleet", "certificates")
    assert code == 0 and "ca-key.pem stays here" in said and "a client's machine needs ca.pem, client.pem, client-key.pem" in said
    before = (tmp_path / "tls" / "client.pem").read_text()
    code, said = tune("fleet", "certificates", "--days", "30")
    assert code == 0 and "stays here" not in said and (tmp_path / "tls" / "client.pem").read_text() != before
    (tmp_path / "tls" / "ca-key.pem").unlink()
    code, said = tune("fleet", "certificates")
    assert code == 3 and "where the authority's key is kept" in said
