"""Native code comes from folders and files of this user's alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tilewright.cache import CacheWarning
from tilewright.devices import Device
from tilewright.files import owned
from tilewright.ir.kernel import Kernel
from tilewright.plan import Artefacts, compile

PLANTED = b"planted by somebody else"


def files(store: Artefacts) -> list[Path]:
    return sorted(p for p in store.folder.rglob("*") if p.is_file())


def plant(kernel: Kernel, cpu: Device, store: Artefacts) -> None:
    """Fill the store, then put an object of the attacker's in each one's place, with the right checksum."""
    compile(kernel, (), cpu, store)
    for file in files(store):
        if file.relative_to(store.folder).parts[0] == "object":
            name = file.name
            file.unlink()
            store._put("object", name, PLANTED)
            assert PLANTED in file.read_bytes()


def made(kernel: Kernel, cpu: Device, store: Artefacts) -> bytes:
    """What a fresh process would load."""
    return compile(kernel, (), cpu, Artefacts(store.folder)).obj


@contextmanager
def warned(said: str) -> Iterator[None]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        yield
    assert [w.category for w in seen] == [CacheWarning] and said in str(seen[0].message)


def test_the_planted_object_would_be_loaded(matmul: Kernel, cpu: Device, store: Artefacts) -> None:
    plant(matmul, cpu, store)
    assert made(matmul, cpu, store) == PLANTED, "or the tests below show nothing"


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
def test_a_folder_that_others_can_write_is_not_used(matmul: Kernel, cpu: Device, store: Artefacts, mode: int) -> None:
    plant(matmul, cpu, store)
    store.folder.chmod(mode)
    before = files(store)
    with warned(f"is not used, because others can write {store.folder}: compiled code is run from folders that only you can write"):
        assert made(matmul, cpu, store) != PLANTED
    assert files(store) == before, "and nothing is written there"


def test_a_folder_above_that_others_can_write_needs_a_sticky_bit(matmul: Kernel, cpu: Device, store: Artefacts) -> None:
    plant(matmul, cpu, store)
    above = store.folder.parent
    above.chmod(0o1777)
    assert made(matmul, cpu, store) == PLANTED, "as below /tmp: what is ours stays ours"
    above.chmod(0o777)
    with warned(f"others can write {above}"):
        assert made(matmul, cpu, store) != PLANTED


@pytest.mark.parametrize("depth", [1, 2])
def test_a_folder_inside_that_others_can_write(matmul: Kernel, cpu: Device, store: Artefacts, depth: int) -> None:
    plant(matmul, cpu, store)
    (planted,) = (p for p in files(store) if PLANTED in p.read_bytes())
    planted.parents[depth - 1].chmod(0o777)
    with warned("others can write"):
        assert made(matmul, cpu, store) != PLANTED


def test_a_file_that_others_can_write_is_made_again(matmul: Kernel, cpu: Device, store: Artefacts) -> None:
    plant(matmul, cpu, store)
    (planted,) = (p for p in files(store) if PLANTED in p.read_bytes())
    planted.chmod(0o666)
    assert made(matmul, cpu, store) != PLANTED and PLANTED not in planted.read_bytes()
    assert compile(matmul, (), cpu, Artefacts(store.folder)).build_s == 0


def test_a_link_or_a_pipe_in_a_files_place_is_made_again(matmul: Kernel, cpu: Device, store: Artefacts, tmp_path: Path) -> None:
    plant(matmul, cpu, store)
    (planted,) = (p for p in files(store) if PLANTED in p.read_bytes())
    planted.rename(tmp_path / "elsewhere")
    planted.symlink_to(tmp_path / "elsewhere")
    assert made(matmul, cpu, store) != PLANTED and not planted.is_symlink()
    planted.unlink()
    os.mkfifo(planted)
    assert made(matmul, cpu, store) != PLANTED and planted.is_file()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "above", "inside", "file"])
def test_what_somebody_else_owns_is_not_used(matmul: Kernel, cpu: Device, store: Artefacts, what: str) -> None:
    plant(matmul, cpu, store)
    (planted,) = (p for p in files(store) if PLANTED in p.read_bytes())
    os.chown({"folder": store.folder, "above": store.folder.parent, "inside": planted.parent, "file": planted}[what], 65534, 65534)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert made(matmul, cpu, store) != PLANTED


# the walk -----------------------------------------------------------------------------------------------------------
def test_links_on_the_way_are_followed_and_looked_at(tmp_path: Path) -> None:
    (tmp_path / "real" / "store").mkdir(parents=True)
    for name, target in {"absolute": str(tmp_path / "real"), "relative": "real", "dots": "real/../real/./store/.."}.items():
        (tmp_path / name).symlink_to(target)
        assert owned.why_not(tmp_path / name / "store") is None
    (tmp_path / "real").chmod(0o777)
    assert owned.why_not(tmp_path / "relative" / "store") == f"others can write {tmp_path / 'real'}"
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        owned.why_not(tmp_path / "loop")
    with pytest.raises(FileNotFoundError):
        owned.why_not(tmp_path / "nothing")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give links away")
def test_somebody_elses_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    tmp_path.chmod(0o1777)
    (tmp_path / "link").symlink_to("real")
    os.lchown(tmp_path / "link", 65534, 65534)
    said = owned.why_not(tmp_path / "link")
    assert said is not None and said.startswith(f"the link {tmp_path / 'link'} belongs to ")
    tmp_path.chmod(0o700)


def test_a_group_of_ones_own_may_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store").chmod(0o770)
    monkeypatch.setattr(owned, "_is_private_group", lambda uid, gid: True)
    assert owned.why_not(tmp_path / "store") is None
    monkeypatch.setattr(owned, "_is_private_group", lambda uid, gid: False)
    assert owned.why_not(tmp_path / "store") == f"others can write {tmp_path / 'store'}"
