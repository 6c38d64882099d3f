"""Signed bundles: what is refused, and that refusing leaves everything as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cache import Cache, signatures
from tilewright.cache.signatures import Trust, TrustedKey
from tilewright.ir.errors import CacheError, UsageError

from .conftest import MakeRow

pytest.importorskip("minisign")


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv(signatures.ENV, raising=False)


@pytest.fixture
def key(tmp_path: Path) -> TrustedKey:
    """The public half of `release.key`."""
    return signatures.make(tmp_path / "release.key", None)[1]


@pytest.fixture
def bundle(store: Cache, make_row: MakeRow, tmp_path: Path, key: TrustedKey) -> Path:
    """Two rows, signed with `key`."""
    store.record([make_row(), make_row(outcome="crash", t_med=None, verified=False)])
    file = tmp_path / "b.jsonl"
    store.export(file)
    Path(f"{file}.minisig").write_bytes(signatures.sign(file.read_bytes(), file.name, tmp_path / "release.key", str))
    return file


def test_what_a_trusted_key_signed_is_read(bundle: Path, key: TrustedKey, tmp_path: Path) -> None:
    rows, found = signatures.read(bundle, Trust((key,)))
    assert len(rows) == 2 and found is not None and found.key == key and "file:b.jsonl" in found.comment
    with cache.open(tmp_path / "new.db") as new:
        assert new.import_(bundle, Trust((key,))) == (2, 0)
    assert oct(os.stat(tmp_path / "release.key").st_mode & 0o777) == "0o600"


def tampered(bundle: Path) -> None:
    text = bundle.read_text()
    assert "9e-05" in text
    bundle.write_text(text.replace("9e-05", "8e-05", 1))


def cut_off(bundle: Path) -> None:
    bundle.write_bytes(bundle.read_bytes()[:-20])


def line_left_out(bundle: Path) -> None:
    bundle.write_text("".join(bundle.read_text().splitlines(keepends=True)[:-1]))


def comment_changed(bundle: Path) -> None:
    place = Path(f"{bundle}.minisig")
    place.write_text(place.read_text().replace("file:b", "file:c"))


def signature_cut_off(bundle: Path) -> None:
    place = Path(f"{bundle}.minisig")
    place.write_bytes(place.read_bytes()[:90])


def no_signature(bundle: Path) -> None:
    os.unlink(f"{bundle}.minisig")


def another_key(bundle: Path) -> None:
    signatures.make(bundle.parent / "other.key", None)
    Path(f"{bundle}.minisig").write_bytes(signatures.sign(bundle.read_bytes(), bundle.name, bundle.parent / "other.key", str))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (tampered, "is not what release"),
        (cut_off, "is not what release"),
        (line_left_out, "is not what release"),
        (comment_changed, "is not what release"),
        (signature_cut_off, "was cut off"),
        (no_signature, "is not signed"),
        (another_key, "was signed by the key"),
    ],
)
def test_anything_else_is_refused_whole(bundle: Path, key: TrustedKey, tmp_path: Path, harm: Callable[[Path], None], said: str) -> None:
    harm(bundle)
    with cache.open(tmp_path / "new.db") as new, pytest.raises(CacheError, match=said):
        new.import_(bundle, Trust((key,)))
    assert not (tmp_path / "new.db").exists()


def test_a_false_signature_of_a_kept_key_is_refused_though_none_is_required(bundle: Path, key: TrustedKey) -> None:
    assert signatures.check(bundle.read_bytes(), str(bundle)) is None
    signatures.keep(key)
    found = signatures.check(bundle.read_bytes(), str(bundle))
    assert found is not None and found.key == key
    tampered(bundle)
    with pytest.raises(CacheError, match="is not what release"):
        signatures.read(bundle)
    another_key(bundle)
    assert signatures.check(bundle.read_bytes(), str(bundle)) is None, "whose it is nobody asked"


def test_the_environment_requires_signatures_of_every_import(
    bundle: Path, key: TrustedKey, store: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(signatures.ENV, "1")
    with pytest.raises(CacheError, match="no key is trusted"):
        store.import_(bundle)
    signatures.keep(key)
    assert store.import_(bundle).known == 2
    monkeypatch.setenv(signatures.ENV, "yes")
    with pytest.raises(UsageError, match="or 0, not 'yes'"):
        store.import_(bundle)


def test_kept_keys_have_one_name_and_count_only_from_a_safe_place(key: TrustedKey, tmp_path: Path) -> None:
    signatures.keep(key)
    other = signatures.make(tmp_path / "other.key", None)[1]
    with pytest.raises(CacheError, match="another key is called release"):
        signatures.keep(TrustedKey(key.name, other.id, other.text))
    with pytest.raises(CacheError, match="cannot be a key's name"):
        signatures.keep(TrustedKey("../evil", key.id, key.text))
    assert signatures.trusted([key.id, "release"]) == (key, key)
    assert signatures.trusted([other.text, str(tmp_path / "other.pub")])[1] == other
    signatures.folder().chmod(0o777)
    with pytest.raises(CacheError, match="do not count"):
        signatures.trusted_keys()
    signatures.folder().chmod(0o700)
    assert signatures.forget("release") == key and signatures.trusted_keys() == ()
    with pytest.raises(CacheError, match="no trusted key"):
        signatures.forget("release")


def test_files_that_are_no_keys_are_named(tmp_path: Path, key: TrustedKey) -> None:
    for text, said in ((str(tmp_path / "none"), "no file"), (str(tmp_path / "release.key"), "secret"), (__file__, "not a public key")):
        with pytest.raises(CacheError, match=said):
            signatures.parse(text)
    with pytest.raises(CacheError, match="public key"):
        signatures.sign(b"", "x", tmp_path / "release.pub", str)
    with pytest.raises(CacheError, match="there already"):
        signatures.make(tmp_path / "release.key", None)


def test_what_minisign_signed_counts() -> None:
    """Text, key and signature that minisign 0.11 verified and this library did not make."""
    text, line, signature = (GOLDEN / name for name in ("text", "key.pub", "text.minisig"))
    found = signatures.check(text.read_bytes(), str(text), Trust((signatures.parse(str(line)),), True, str(signature)))
    assert found is not None and found.comment.startswith("timestamp:")


GOLDEN = Path(__file__).parent / "minisign"
