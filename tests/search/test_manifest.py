"""Manifests: what is read, and that everything else is an error that says where."""

from __future__ import annotations

from pathlib import Path

import pytest
from tilewright.ir.errors import UsageError
from tilewright.search.manifest.manifest import MAX_BYTES, Place, load

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
            'line 3, .*start is "auto", "none" or a schedule: option 0: cannot read .some.',
        ),
        ("[[kernel]]\nname = 'add'\nseeds = 'none'", "line 3, .*seeds is now start"),
        ("[[kernel]]\nname = 'add'\nseed = 1", "line 3, .*seed is now random-seed"),
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
