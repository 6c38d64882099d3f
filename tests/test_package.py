"""The package outside its checkout: wheel and source distribution are built, hold what they must and no more, install, and run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DATA = {
    "tilewright/py.typed",
    "tilewright/cli/report/report.html",
    "tilewright/cli/report/study.js",
    "tilewright/cli/report/live.js",
    "tilewright/devices/cuda/host.hpp",
    "tilewright/export/tilewright_runtime.h",
    "tilewright/devices/cuda/host_async.hpp",
    "tilewright/devices/cuda/host_hopper.hpp",
    "tilewright/devices/cuda/host_tensor.hpp",
    *(f"tilewright/schedules/{path.name}" for path in (ROOT / "schedules").glob("*.jsonl")),
    *(f"tilewright/search/bench/spaces/{path.name}" for path in (ROOT / "search" / "bench" / "spaces").glob("*.npz")),
}

MAN = f"tilewright-{PROJECT['project']['version']}.data/data/share/man/man1/tune.1"

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Dists:
    """What was built: the source distribution, the wheel made from it, and a wheel made from the tree itself."""

    sdist: Path
    wheel: Path
    direct: Path


def shell(*command: str | Path, cwd: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dists(tmp_path_factory: pytest.TempPathFactory) -> Dists:
    """Built from a copy of the files that git knows, so that nothing of this checkout (`build`, `.venv`) gets in."""
    pytest.importorskip("build")
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("package")
    tree = folder / "tree"
    for file in filter(None, listed.stdout.split("\0")):
        if (ROOT / file).is_file() and not file.startswith(("results/", "tests/golden/")):
            (tree / file).parent.mkdir(parents=True, exist_ok=True)
            (tree / file).write_bytes((ROOT / file).read_bytes())
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir")
    # the direct one last: it leaves a folder `build` in the tree
    shell(*build, folder / "both", tree, cwd=folder)
    shell(*build, folder / "direct", "--wheel", tree, cwd=folder)
    only = {kind: next((folder / "both").glob(kind)) for kind in ("*.tar.gz", "*.whl")}
    return Dists(only["*.tar.gz"], only["*.whl"], next((folder / "direct").glob("*.whl")))


def names(wheel: Path) -> set[str]:
    """The files of a wheel, but for its own records."""
    return {n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in n}


def modules() -> set[str]:
    """Every module of the package, as a path inside it."""
    folders = [p.split(".")[1:] for p in PROJECT["tool"]["setuptools"]["packages"]]
    return {f"tilewright/{f.relative_to(ROOT)}" for parts in folders for f in ROOT.joinpath(*parts).glob("*.py")}


def test_a_wheel_holds_the_package_and_nothing_else(dists: Dists) -> None:
    doors = {f"tilewright/{p.parent.name}/__init__.py" for p in (ROOT / "doors").glob("*/__init__.py")}
    assert names(dists.wheel) == modules() | DATA | {MAN} | doors and "tilewright/torch/__init__.py" in doors


def test_a_source_distribution_makes_the_same_wheel(dists: Dists) -> None:
    assert names(dists.wheel) == names(dists.direct)
    with tarfile.open(dists.sdist) as archive:
        inside = {n.partition("/")[2] for n in archive.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md"} <= inside
    assert not [n for n in inside if n.startswith(("tests", "results", "benchmarks"))]


def test_an_installed_wheel_runs_anywhere(dists: Dists, tmp_path: Path, known_limits: Path) -> None:
    home = tmp_path / "env"
    venv.create(home)
    python, tune = home / "bin/python", home / "bin/tune"
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV", "COVERAGE_PROCESS_START")}
    env |= {"TILEWRIGHT_CACHE": str(tmp_path / "cache.db"), "COLUMNS": "120"}
    env |= {f"XDG_{kind}_HOME": str(tmp_path / kind.lower()) for kind in ("CACHE", "DATA", "CONFIG")}
    env |= {"XDG_STATE_HOME": str(known_limits)}
    shell(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
        "--no-compile",
        dists.wheel,
        cwd=tmp_path,
        env=env,
    )
    # its dependencies are those of this environment; a path that a .pth file adds comes last, and .pth files in it
    # (an editable install) do not count
    purelib = shell(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path, env=env).strip()
    (Path(purelib) / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")

    where = shell(python, "-c", "import tilewright; print(tilewright.__file__)", cwd=tmp_path, env=env)
    assert Path(where.strip()).is_relative_to(home), "not the installed one"
    assert PROJECT["project"]["version"] in shell(tune, "--version", cwd=tmp_path, env=env)
    assert "softmax" in shell(tune, "kernels", cwd=tmp_path, env=env)
    assert "@matmul_p0" in shell(tune, "show", "--kernel", "matmul", cwd=tmp_path, env=env)
    run = (
        tune,
        "run",
        "--kernel",
        "matmul",
        "--shape",
        "m=32,n=32,k=32",
        "--threads",
        "1",
        "--trials",
        "3",
        "--quiet",
        "--json",
        "result.json",
    )
    shell(*run, cwd=tmp_path, env=env)
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["verified"] and result["exit_code"] == 0
    shell(tune, "report", "--html", "report.html", cwd=tmp_path, env=env)
    assert "matmul" in (tmp_path / "report.html").read_text()
    host = "from tilewright.devices.cuda import host; from pathlib import Path; print((Path(host.__file__).parent / 'host.hpp').is_file())"
    assert shell(python, "-c", host, cwd=tmp_path, env=env).strip() == "True"
