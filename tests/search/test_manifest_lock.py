"""Manifests that name Python files: who runs them, and what is told from the lock."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cli.main import main
from tilewright.ir.errors import UsageError
from tilewright.search.manifest import lock as locks
from tilewright.search.manifest.manifest import load
from tilewright.search.manifest.required import check

ROOT = Path(__file__).resolve().parents[2]
ENTRY = '[[kernel]]\nname = "{name}"\nshapes = ["m=8,n=8"]\ndtypes = []\n'


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """One with a file of its own beside it, which leaves a mark wherever it runs."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "mine.py").write_text((ROOT / "examples/energy.py").read_text() + f"\nopen({str(tmp_path / 'ran')!r}, 'w').close()\n")
    (folder / "k.toml").write_text(ENTRY.format(name="mine.py:make_kernel"))
    return folder / "k.toml"


def ran(manifest: Path) -> bool:
    mark = manifest.parent.parent / "ran"
    found = mark.exists()
    mark.unlink(missing_ok=True)
    return found


def lock(manifest: Path) -> None:
    from tilewright.cli.tuning.manifest import keep_lock

    keep_lock(load(manifest))
    assert ran(manifest)


def state(manifest: Path) -> tuple[str, str]:
    with cache.open(manifest.parent / "cache.db") as store:
        found = check(load(manifest, "none").entries[0], store)
    return found.wanted.kernel, found.why


def test_looking_up_runs_nothing(manifest: Path) -> None:
    assert state(manifest)[0] == "unknown" and "the lock does not know what mine.py makes: tune run --manifest" in state(manifest)[1]
    assert not ran(manifest)
    lock(manifest)
    known, why = state(manifest)
    assert len(known) == 64 and why == "" and not ran(manifest)
    (trusted,) = load(manifest, "all").entries
    assert ran(manifest) and trusted.made is not None
    with open(manifest.parent / "mine.py", "a") as f:
        f.write("# another line\n")
    assert state(manifest)[0] == "unknown" and "the kernel file mine.py changed since the lock was written" in state(manifest)[1]
    assert not ran(manifest)


def test_the_key_is_the_one_that_running_gives(manifest: Path) -> None:
    from tilewright.search.manifest.required import wanted

    lock(manifest)
    assert wanted(load(manifest, "none").entries[0]) == wanted(load(manifest, "all").entries[0])


def test_the_commands_that_look_run_nothing_without_trust(
    manifest: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(manifest.parent / "cache.db"))
    for command in (["cache", "check"], ["run", "--mode", "require"]):
        assert main([*command, "--manifest", str(manifest)]) == 5 and not ran(manifest)
        assert "the lock does not know what mine.py makes" in capsys.readouterr().out
        assert main([*command, "--manifest", str(manifest), "--trust"]) == 5 and ran(manifest)
        assert "nothing that was verified is cached" in capsys.readouterr().out
    assert main(["cache", "check", "--manifest", str(manifest), "--format", "markdown"]) == 5
    assert "* " in capsys.readouterr().out and not ran(manifest)
    assert main(["run", "--kernel", "matmul", "--trust"]) == 2


def test_links_lead_out_of_the_folder_only_with_trust(manifest: Path, tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text((manifest.parent / "mine.py").read_text())
    (manifest.parent / "link.py").symlink_to(tmp_path / "outside.py")
    for name in ("link.py:make_kernel", "../outside.py:make_kernel", str(tmp_path / "outside.py") + ":make_kernel"):
        manifest.write_text(ENTRY.format(name=name))
        for files in ("none", "inside"):
            with pytest.raises(UsageError, match=r"line 2, .*is not below the manifest's folder: move it there, or add --trust"):
                load(manifest, files)
        assert not ran(manifest)
        assert load(manifest, "all").entries[0].made is not None and ran(manifest)


def test_a_lock_is_the_same_bytes_and_goes_with_its_entries(manifest: Path) -> None:
    lock(manifest)
    path = manifest.parent / "k.lock.json"
    assert path == locks.path_of(manifest)
    first = path.read_bytes()
    stamp = path.stat().st_mtime_ns
    lock(manifest)
    assert path.read_bytes() == first and path.stat().st_mtime_ns == stamp
    manifest.write_text('[[kernel]]\nname = "add"\n')
    from tilewright.cli.tuning.manifest import keep_lock

    keep_lock(load(manifest))
    assert json.loads(path.read_text())["kernels"] == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", "\xff", '{"schema":2,"tilewright":"lock","kernels":[]}', '{"schema":1,"tilewright":"lock","kernels":[{}]}', "[" * 100_000,
     '{"schema":1,"tilewright":"lock","kernels":[{"name":"x","shape":{"m":1.5},"dtype":"","sha256":"' + "0" * 64 + '","kernel":"' + "0" * 64 + '"}]}',
     '{"schema":1,"tilewright":"lock","kernels":[{"name":"x","shape":{},"dtype":"","sha256":"' + "0" * 64 + '","kernel":"../"}]}'],
)  # fmt: skip
def test_what_is_no_lock_is_refused(manifest: Path, text: str) -> None:
    locks.path_of(manifest).write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError, match=r"k.lock.json is not a lock"):
        load(manifest, "none")


def test_a_pipe_is_no_kernel_file_and_no_lock(manifest: Path) -> None:
    import os

    os.mkfifo(locks.path_of(manifest))
    with pytest.raises(UsageError, match=r"cannot read .*k\.lock.json: it is no regular file"):
        load(manifest, "none")
    (manifest.parent / "mine.py").unlink()
    os.mkfifo(manifest.parent / "mine.py")
    with pytest.raises(UsageError, match=r"cannot read .*mine\.py: it is no regular file"):
        load(manifest, "none")


def test_a_folder_that_cannot_be_written_is_a_warning(manifest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.cli.tuning.manifest import keep_lock

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tilewright.files.output.replace", full)
    with pytest.warns(UserWarning, match=r"cannot write .*k.lock.json \(No space left on device\)"):
        keep_lock(load(manifest))


def test_the_examples_lock_is_theirs() -> None:
    path = ROOT / "examples/kernels.toml"
    looked, ran = ([e for e in load(path, files).entries if ".py" in e.kernel] for files in ("none", "all"))
    from tilewright.search.manifest.required import wanted

    assert [wanted(e) for e in looked] == [wanted(e) for e in ran] and looked
