"""The store on disk: corruption, bounds, bad disks."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tilewright import named_kernels
from tilewright.cache import CacheWarning
from tilewright.devices import Device
from tilewright.ir import sym
from tilewright.ir.errors import TilewrightError
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.plan import Artefacts, compile
from tilewright.plan.artefacts import decode_signature, encode_signature
from tilewright.program.program import Param, Signature


def files(store: Artefacts) -> list[Path]:
    return sorted(p for p in store.folder.rglob("*") if p.is_file() and p.name != ".trimmed")


def test_objects_come_back(store: Artefacts) -> None:
    assert store.object("ab", "c") is None
    store.put_object("ab", "c", b"\0code\n\xff")
    assert store.object("ab", "c") == b"\0code\n\xff"
    assert store.object("ab", "other compiler") is None
    assert oct(store.folder.stat().st_mode & 0o777) == "0o700"


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "header"])
@pytest.mark.parametrize("kind", ["plan", "text", "object"])
def test_a_damaged_entry_is_removed_and_made_again(matmul: Kernel, cpu: Device, store: Artefacts, damage: str, kind: str) -> None:
    cold = compile(matmul, (), cpu, store)
    (file,) = (p for p in files(store) if p.relative_to(store.folder).parts[0] == kind)
    data = bytearray(file.read_bytes())
    if damage == "flip":
        data[-10] ^= 1
    elif damage == "header":
        data[:9] = b"something"
    file.write_bytes({"truncate": data[:-5], "empty": b""}.get(damage, bytes(data)))
    again = compile(matmul, (), cpu, store)
    assert again.obj == cold.obj and again.sha == cold.sha
    assert (again.build_s > 0) == (kind == "object") and (again.lower_s > 0) == (kind != "object")
    warm = compile(matmul, (), cpu, store)
    assert (warm.lower_s, warm.build_s) == (0, 0)


def test_an_entry_with_a_right_checksum_but_wrong_content(matmul: Kernel, cpu: Device, store: Artefacts) -> None:
    compile(matmul, (), cpu, store)
    (file,) = (p for p in files(store) if p.relative_to(store.folder).parts[0] == "plan")
    for content in (b"", b"[]", b'{"sha": "x"}', b'{"sha": 3, "signature": {}, "effects": [], "scheduled": ""}'):
        file.unlink(missing_ok=True)
        store._put("plan", file.name, content)
        assert compile(matmul, (), cpu, store).lower_s > 0
    assert compile(matmul, (), cpu, store).lower_s == 0


def test_an_entry_under_the_name_of_another_is_none(store: Artefacts) -> None:
    store.put_object("one", "c", b"code of one")
    store.put_object("two", "c", b"code of two")
    store.put_start("ab" * 32, "[]")
    objects = [p for p in files(store) if "object" in p.parts]
    first, second = (p.read_bytes() for p in objects)
    objects[0].write_bytes(second)
    objects[1].write_bytes(first)
    (start,) = (p for p in files(store) if "start" in p.parts)
    (start.parent.parent / "cd").mkdir(mode=0o700)
    (start.parent.parent / "cd" / ("cd" * 32)).write_bytes(start.read_bytes())
    assert store.object("one", "c") is None and store.object("two", "c") is None
    assert store.start("cd" * 32) is None and store.start("ab" * 32) == "[]"
    store.put_object("one", "c", b"code of one")
    assert store.object("one", "c") == b"code of one"


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    store = Artefacts(tmp_path, limit=10_000)
    for i in range(8):
        store.put_object(str(i), "c", bytes(1000))
    for i, file in enumerate(sorted(files(store), key=lambda p: p.stat().st_mtime_ns)):
        os.utime(file, (1e9 + i, 1e9 + i))
    used = store.object("0", "c")
    assert used is not None, "using it notes the time"
    for i in range(8, 12):
        store.put_object(str(i), "c", bytes(1000))
    removed = store.trim()
    assert removed > 0 and sum(p.stat().st_size for p in files(store)) <= 8000
    assert store.object("0", "c") is not None and store.object("11", "c") is not None
    assert store.trim() == 0


def test_the_store_trims_itself(tmp_path: Path) -> None:
    store = Artefacts(tmp_path, limit=50_000)
    for i in range(300):
        store.put_object(str(i), "c", bytes(1000))
    assert sum(p.stat().st_size for p in files(store)) <= 50_000 + 128 * 1200


def test_what_a_killed_writer_left_is_swept(store: Artefacts) -> None:
    store.put_object("a", "c", b"x")
    left = files(store)[0].with_name(".new-abc")
    left.write_bytes(b"half")
    store.trim()
    assert left.exists(), "it may still be being written"
    os.utime(left, (1e9, 1e9))
    store.trim()
    assert not left.exists() and store.object("a", "c") == b"x"


def test_a_store_that_cannot_be_written_warns_once_and_is_empty(matmul: Kernel, cpu: Device, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    store = Artefacts(tmp_path / "file" / "artefacts")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(2):
            assert compile(matmul, (), cpu, store).build_s > 0
    assert [w.category for w in seen] == [CacheWarning]
    assert "cannot be used (Not a directory); every start compiles again" in str(seen[0].message)


def test_a_full_disk_leaves_no_half_entry(store: Artefacts) -> None:
    code = f"""
import resource, signal, warnings
from tilewright.plan import Artefacts
store = Artefacts({str(store.folder)!r})
store.put_object("small", "c", b"x" * 100)
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    store.put_object("large", "c", b"x" * 100_000)
print(len(seen), store.object("large", "c"), len(store.object("small", "c")))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.stdout.split() == ["1", "None", "100"], done.stderr
    assert len(files(store)) == 1


@pytest.mark.slow
def test_processes_share_a_store(store: Artefacts) -> None:
    code = f"""
from tilewright.plan import Artefacts
store = Artefacts({str(store.folder)!r}, limit=30_000)
for i in range(400):
    store.put_object(str(i % 50), "c", bytes([i % 50]) * 1000)
    got = store.object(str(i % 50), "c")
    assert got in (None, bytes([i % 50]) * 1000)
"""
    workers = [subprocess.Popen([sys.executable, "-W", "error", "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for w in workers:
        _, errors = w.communicate(timeout=240)
        assert w.returncode == 0, errors


def test_the_default_place_is_the_platforms(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Artefacts.default().folder == tmp_path / "tilewright" / "artefacts"


# signatures ---------------------------------------------------------------------------------------------------------
M, N = sym("m", 1, 4096), sym("n", 0, 77)
leaves = st.sampled_from([M, N]) | st.integers(1, 9)
extents = st.recursive(
    leaves,
    lambda x: st.one_of(
        st.tuples(x, x).map(lambda p: p[0] + p[1]), st.tuples(x, x).map(lambda p: p[0] * p[1]), st.tuples(x, st.integers(1, 8)).map(lambda p: p[0] // p[1]), st.tuples(x, st.integers(1, 8)).map(lambda p: p[0] % p[1])
    ),
    max_leaves=6,
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(extents, max_size=3), st.lists(extents, min_size=1, max_size=3))
def test_signatures_survive_json(shape: list[int | Node], items: list[int | Node]) -> None:
    import json

    from tilewright.ir import const, float32

    grid = tuple(i if isinstance(i, Node) else const(i) for i in items)
    s = Signature("f", (Param("x", float32, tuple(shape), "in"),), ("m", "n"), grid, 64, 128, once=1)
    assert decode_signature(json.loads(json.dumps(encode_signature(s)))) == s


@pytest.mark.parametrize(
    "data", [None, [], {}, {"name": 1}, {"name": "f", "params": [], "symbols": [], "items": [["load", 1, []]], "scratch": 0, "work": 0}]
)
def test_what_is_no_signature_is_refused(data: object) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, TilewrightError)):
        decode_signature(data)


def test_symbolic_kernels_come_back_from_the_store(cpu: Device, store: Artefacts) -> None:
    from tilewright.ir.normal_form import normalise

    kernel = normalise(named_kernels.make("softmax", {"m": sym("rows", 1, 100), "n": 16}, "float32"))
    cold, warm = compile(kernel, (), cpu, store), compile(kernel, (), cpu, store)
    assert warm.lower_s == 0 and warm.signature == cold.signature and warm.signature.symbols == ("rows",)


def test_a_store_is_looked_through_once_in_a_while_and_not_by_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may hold tens of thousands of files, and programs open it again and again."""
    looked: list[int] = []
    whole = Artefacts.trim
    monkeypatch.setattr(Artefacts, "trim", lambda self: looked.append(1) or whole(self))
    for i in range(5):
        Artefacts(tmp_path).put_object(str(i), "c", b"x")
    assert len(looked) == 1
