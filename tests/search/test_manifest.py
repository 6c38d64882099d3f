"""Manifests, and the lock beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tilewright import cache
from tilewright.cli import main
from tilewright.ir.errors import UsageError
from tilewright.search.manifest import lock as locks
from tilewright.search.manifest.manifest_file import MAX_BYTES, Place, load
from tilewright.search.manifest.tune_all import check

WHOLE = """
# everything there is
[defaults]
dtypes = ["float32"]
targets = ["ci"]
budget = "20s"
random-seed = 3

[targets.ci]
device = "cpu"
target = "znver5"
threads = 4

[targets.gpu]
device = "cuda"
target = "cuda:sm_90a:*"
compiler = "nvrtc-13.*"

[[kernel]]
name = "matmul"
shapes = ["m=64,n=48,k=32", { m = 96, n = 96, k = 96 }]
targets = ["ci", "gpu"]

[[kernel]]
name = "softmax"
dtypes = ["float32", "float16"]
budget = 5
trials = 7
strategy = "beam"
start = "Um8 UPCAST(n, 16)"
random-seed = 1
"""


def test_entries_are_the_product_with_defaults_and_overrides(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text(WHOLE)
    m = load(tmp_path / "k.toml")
    assert m.places == (Place("ci", "cpu", "znver5", 4, None), Place("gpu", "cuda", "cuda:sm_90a:*", None, "nvrtc-13.*"))
    assert [e.title for e in m.entries] == [
        "matmul m=64,n=48,k=32 float32 for ci",
        "matmul m=64,n=48,k=32 float32 for gpu",
        "matmul m=96,n=96,k=96 float32 for ci",
        "matmul m=96,n=96,k=96 float32 for gpu",
        "softmax m=4096,n=4096 float32 for ci",
        "softmax m=4096,n=4096 float16 for ci",
    ]
    first, last = m.entries[0], m.entries[-1]
    assert (first.budget, first.trials, first.strategy, first.start, first.random_seed, first.line) == (20.0, None, None, "auto", 3, 19)
    assert (last.budget, last.trials, last.strategy, last.start, last.random_seed, last.line) == (
        5.0,
        7,
        "beam",
        "Um8 UPCAST(n, 16)",
        1,
        24,
    )
    assert first.made is not None and first.made.name == "matmul"
    assert [e.place.name for e in m.only(["gpu"]).entries] == ["gpu", "gpu"]
    with pytest.raises(UsageError, match="has no target 'gpus'; did you mean 'gpu'"):
        m.only(["gpus"])


def test_the_least_manifest(tmp_path: Path) -> None:
    (tmp_path / "k.toml").write_text('[[kernel]]\nname = "gelu"\n')
    (entry,) = load(tmp_path / "k.toml").entries
    assert entry.place == Place("host", "cpu", "host", None, None) and entry.dtype == "float32" and entry.shape


def test_files_are_beside_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).resolve().parents[2]
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "energy.py").write_text((root / "examples/energy.py").read_text())
    (folder / "k.toml").write_text(
        '[targets.fake]\ndevice = "dev.py:Fake"\n[[kernel]]\nname = "energy.py:make_kernel"\nshapes = ["m=8,n=8"]\ndtypes = []\n[defaults]\ndtypes = ["float16"]\n'
    )
    monkeypatch.chdir(tmp_path)
    (entry,) = load("there/k.toml").entries
    assert entry.kernel == "there/energy.py:make_kernel" and entry.shape == {"m": 8, "n": 8} and entry.place.device == "there/dev.py:Fake"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = =", r"k.toml is not a manifest: .*line 1"),
        ("", "names no kernel: add a"),
        ("kernel = 3", "line 1, kernel: write each kernel as a table"),
        ("kernels = 1", "line 1, top level: unknown key 'kernels'; did you mean 'kernel'"),
        ("targets = 1", "line 1, targets: must be a table"),
        ('[defaults]\ndtype = ["float32"]', r"line 2, \[defaults\]: unknown key 'dtype'; did you mean 'dtypes'"),
        (
            "[defaults]\n\ntrials = 0\n[[kernel]]\nname='add'",
            r"line 4, \[\[kernel\]\] 1 \(add\): trials must be a whole number of at least 1",
        ),
        ("[targets.a]\n\nthread = 1", r"line 3, \[targets.a\]: unknown key 'thread'; did you mean 'threads'"),
        ("[targets.a]\nthreads = true", r"line 2, \[targets.a\]: threads must be a whole number"),
        ("[targets.a]\ndevice = 3", r"line 2, \[targets.a\]: device must be a text"),
        ("[targets]\na = 1", "targets.a"),
        ("[[kernel]]\nshapes = []", r"line 1, \[\[kernel\]\] 1: name = \"matmul\" is missing"),
        ("[[kernel]]\nname = 'matmull'", r"line 2, \[\[kernel\]\] 1 \(matmull\): unknown kernel 'matmull'; did you mean 'matmul'"),
        (
            "[[kernel]]\nname = 'add'\n[[kernel]]\nname = 'add'\nshape = 1",
            r"line 5, \[\[kernel\]\] 2 \(add\): unknown key 'shape'; did you mean 'shapes'",
        ),
        ("[[kernel]]\nname = 'add'\nshapes = []", "line 3, .*shapes must be a list"),
        ("[[kernel]]\nname = 'add'\nshapes = ['m=x']", "line 3, .*cannot read 'm=x' as a size"),
        ("[[kernel]]\nname = 'add'\nshapes = [{ m = 1.5 }]", "line 3, .*cannot read"),
        ("[[kernel]]\nname = 'matmul'\nshapes = ['q=3']", "line 3, .*matmul has no size 'q'"),
        ("[[kernel]]\nname = 'matmul'\nshapes = ['m=0']", "line 3, .*must be at least 1"),
        ("[[kernel]]\nname = 'add'\ndtypes = ['int7']", "float"),
        ("[[kernel]]\nname = 'add'\ndtypes = 'float32'", "line 3, .*dtypes must be a list of names"),
        ("[[kernel]]\nname = 'add'\ntargets = []", "line 3, .*targets must be a list of names"),
        ("[targets.ci]\n[[kernel]]\nname = 'add'\ntargets = ['cj']", "line 4, .*unknown target 'cj'; did you mean 'ci'"),
        ("[[kernel]]\nname = 'add'\nbudget = 'soon'", "line 3, .*budget 'soon' is not a time"),
        ("[[kernel]]\nname = 'add'\nbudget = true", "line 3, .*budget"),
        ("[[kernel]]\nname = 'add'\nstrategy = 'beem'", "line 3, .*did you mean 'beam'"),
        ("[[kernel]]\nname = 'add'\nstrategy = 3", "line 3, .*unknown strategy '3'"),
        (
            "[[kernel]]\nname = 'add'\nstart = 'some'",
            'line 3, .*start is "auto", "none" or a schedule: option 1: cannot read .some.',
        ),
        ("[[kernel]]\nname = 'add'\nnumerics = 'exact'", 'line 3, .*numerics is "free" or "fixed", not \'exact\''),
        ("[[kernel]]\nname = 'add'\nrandom-seed = -1", "line 3, .*random-seed must be"),
        ("[[kernel]]\nname = 'add'\n[[kernel]]\nname = 'add'", "line 3, add .* the same entry stands on line 1"),
        ("[targets.a]\ntarget = '" + "*" * 1001 + "'", "line 2, .*target must be a text of at most 1000 characters"),
        ("[[kernel]]\nname = 'add'\nshapes = ['m=" + "9" * 5000 + "']", "line 3, .*size m has 5000 digits"),
        ("[[kernel]]\nname = 'add'\nrandom-seed = " + "9" * 5000, "not a manifest"),
        ("[[kernel]]\nname = '../x.py:f'", r"line 2, .*\.\./x.py is not below the manifest's folder"),
        ("[[kernel]]\nname = '/dev/stdin:f'", "line 2, .*is not below the manifest's folder"),
        ("[targets.a]\ndevice = '../x.py:D'\n[[kernel]]\nname = 'add'", "line 2, .*is not below the manifest's folder"),
        ("[[kernel]]\nname = 'a\\u0000.py:f'", "is no path|there is no file|not a manifest"),
        ("[[kernel]]\nname = 'nothing.py:f'", "line 2, .*there is no file"),
        ("a = " + "[" * 5000, "not a manifest"),
        ("# " + "x" * MAX_BYTES, "larger than a manifest may be"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "k.toml").write_text(text)
    with pytest.raises(UsageError, match=said):
        load(tmp_path / "k.toml")


def test_files_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the manifest .*k.toml: No such file"):
        load(tmp_path / "k.toml")
    (tmp_path / "k.toml").write_bytes(b"\xff\xfe\0")
    with pytest.raises(UsageError, match="is not a manifest"):
        load(tmp_path / "k.toml")


def test_not_too_many_entries(tmp_path: Path) -> None:
    shapes = ", ".join(f'"n={n}"' for n in range(2, 103))
    targets = "".join(f"[targets.t{i}]\n" for i in range(100))
    (tmp_path / "k.toml").write_text(f"{targets}[[kernel]]\nname = 'cumsum'\nshapes = [{shapes}]\n")
    with pytest.raises(UsageError, match="more than 10000 entries"):
        load(tmp_path / "k.toml")


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
    from tilewright.cli.tuning.tune_manifest import keep_lock

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
    from tilewright.search.manifest.tune_all import wanted

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
    from tilewright.cli.tuning.tune_manifest import keep_lock

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
    from tilewright.cli.tuning.tune_manifest import keep_lock

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tilewright.files.write_file.replace", full)
    with pytest.warns(UserWarning, match=r"cannot write .*k.lock.json \(No space left on device\)"):
        keep_lock(load(manifest))


def test_the_examples_lock_is_theirs() -> None:
    path = ROOT / "examples/kernels.toml"
    looked, ran = ([e for e in load(path, files).entries if ".py" in e.kernel] for files in ("none", "all"))
    from tilewright.search.manifest.tune_all import wanted

    assert [wanted(e) for e in looked] == [wanted(e) for e in ran] and looked


def test_import_paths_run_only_where_kernels_files_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.cache.objective_types._registered", {})
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, (inside := tmp_path / "inside")):
        folder.mkdir(exist_ok=True)
        (folder / "own.py").write_text(
            f"open({str(folder / 'ran')!r}, 'w').close()\nfrom tilewright.search import Objective\n"
            "class Half(Objective):\n    name = 'half'\n    def value(self, m): return m.t_med / 2\n"
        )
    file = inside / "k.toml"
    entry = '[targets.a]\ndevice = "cpu"\ntarget = "znver5"\nthreads = 1\n[[kernel]]\nname = "add"\nshapes = ["m=8,n=16"]\n'
    file.write_text(f'{entry}strategy = "own.py:Half"\n')
    assert load(file, files="none").entries[0].strategy == f"{inside}/own.py:Half"
    file.write_text(f'{entry}objective = "own.py:Half"\n')
    with pytest.raises(UsageError, match=r"line 8, .*own.py:Half is not run to ask for its name: .* add --trust"):
        load(file, files="none")
    assert not (inside / "ran").exists()
    assert load(file).entries[0].objective == "half" and (inside / "ran").exists()
    for key in ("strategy", "objective"):
        file.write_text(f'{entry}{key} = "../own.py:Half"\n')
        with pytest.raises(UsageError, match=r"own.py is not below the manifest's folder"):
            load(file)
    assert not (tmp_path / "ran").exists()
