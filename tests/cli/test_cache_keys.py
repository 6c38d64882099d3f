"""tune cache keys, export --sign and import --require-signature."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Tune

pytest.importorskip("minisign")


@pytest.fixture(autouse=True)
def own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.delenv("TILEWRIGHT_KEY_PASSWORD", raising=False)


def test_a_key_signs_is_trusted_and_forgotten(tune: Tune, filled: Path, tmp_path: Path) -> None:
    key, bundle, new = str(tmp_path / "r.key"), str(tmp_path / "b.jsonl"), str(tmp_path / "new.db")
    assert tune("cache", "keys", "make", key, "--no-password").code == 0
    assert "signed in" in tune("cache", "export", bundle, "--sign", key).out
    refused = tune("cache", "import", bundle, "--require-signature", "--cache", new)
    assert refused.code == 2 and "no key is trusted" in refused.err and not Path(new).exists()
    assert tune("cache", "keys", "trust", str(tmp_path / "r.pub"), "--name", "release").code == 0
    assert [k["name"] for k in json.loads(tune("cache", "keys", "list", "--format", "json").out)] == ["release"]
    assert "was signed by release" in tune("cache", "keys", "verify", bundle).out
    assert tune("cache", "import", bundle, "--require-signature", "--cache", new).out.startswith("added 4 ")
    assert tune("cache", "diff", str(filled), bundle, "--require-signature").code == 0
    assert "is of its earlier content" in tune("cache", "export", bundle, "--kernel", "softmax").err
    for done in (tune("cache", "import", bundle), tune("cache", "merge", bundle, "--into", new), tune("cache", "diff", new, bundle)):
        assert done.code == 2 and "is not what release" in done.err
    assert tune("cache", "keys", "forget", "release").code == 0
    assert tune("cache", "import", bundle).code == 0, "nobody asks for a signature any more"


def test_a_password_that_nobody_can_give_changes_nothing(tune: Tune, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import minisign

    pair = minisign.KeyPair.generate()
    pair.secret_key.encrypt("right", opslimit=1 << 15, memlimit=1 << 24)  # as minisign does, but quick
    key, bundle = tmp_path / "r.key", tmp_path / "b.jsonl"
    key.write_bytes(bytes(pair.secret_key) + b"\n")
    assert "no terminal to ask on" in tune("cache", "export", str(bundle), "--sign", str(key)).err
    monkeypatch.setenv("TILEWRIGHT_KEY_PASSWORD", "wrong")
    assert "wrong password" in tune("cache", "export", str(bundle), "--sign", str(key)).err
    assert not bundle.exists()
    monkeypatch.setenv("TILEWRIGHT_KEY_PASSWORD", "right")
    assert tune("cache", "export", str(bundle), "--sign", str(key)).code == 0
