"""SciPy's and scikit-learn's own array-API tests on our tensors, and on PyTorch's beside them: what passes, by module.

    python benchmarks/consumer_suites.py [--backend tilewright.xp] [--seconds 900] [MODULE…]

A module is a package or a file of theirs (`scipy.stats`, `sklearn.decomposition`); without one all of `MODULES`. Each runs in a
process of its own under pytest, with this file as a plugin that adds the backend to their lists, and tests of other backends left
out. `--failures FILE` keeps the names of tests that fail, with the first line of each error."""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

BACKEND = os.environ.get("CONSUMER_BACKEND", "tilewright.xp")
MODULES = (
    "scipy.special", "scipy.stats", "scipy.signal", "scipy.ndimage", "scipy.fft", "scipy.cluster", "scipy.optimize",
    "scipy.integrate", "scipy.differentiate", "scipy.spatial", "sklearn",
)  # fmt: skip
KINDS = ("passed", "failed", "skipped", "xfailed")


# the plugin -------------------------------------------------------------------------------------------------------
@pytest.hookimpl(tryfirst=True)
def pytest_plugin_registered(plugin: Any, manager: Any) -> None:
    """SciPy's fixture `xp` gets one backend: this one."""
    if getattr(plugin, "__name__", "") != "scipy.conftest" or not hasattr(plugin, "xp_known_backends"):
        return
    module = importlib.import_module(BACKEND)
    plugin.xp_known_backends.add(BACKEND)
    param = pytest.param(module, id=BACKEND, marks=pytest.mark.array_api_backends)
    plugin.xp_available_backends[:] = [param]
    plugin.xp = pytest.fixture(params=[param])(plugin.xp.__wrapped__)


class _NoTorch:
    """Finds no PyTorch, which SciPy's conftest would import if it could: that takes seconds."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """What the import system asks."""
        if name == "torch":
            raise ImportError(name)


def pytest_configure(config: Any) -> None:
    """scikit-learn's list of namespaces, devices and types gets this one. Floats are float64 by default, as SciPy's tests have PyTorch."""
    if BACKEND == "tilewright.xp":
        import tilewright

        tilewright.set_default_float("float64")
    if BACKEND != "torch":
        sys.meta_path.insert(0, _NoTorch())
    if not any("sklearn" in str(a) for a in config.args):
        return
    from sklearn.utils import _array_api

    def combinations(include_numpy_namespaces: bool = True) -> Any:
        for dtype in ("float64", "float32"):
            yield BACKEND, "cpu", dtype

    _array_api.yield_namespaces = lambda include_numpy_namespaces=True: iter((BACKEND,))
    _array_api.yield_namespace_device_dtype_combinations = combinations


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Tests of other backends, and of none, are left out."""
    kept = [i for i in items if BACKEND in i.nodeid]
    config.hook.pytest_deselected(items=[i for i in items if BACKEND not in i.nodeid])
    items[:] = kept


def pytest_runtest_logreport(report: Any) -> None:
    """How each test ended, written down at once."""
    if report.when != "call" and report.outcome == "passed":
        return
    outcome = "xfailed" if hasattr(report, "wasxfail") and report.outcome == "skipped" else report.outcome
    lines = [line for line in report.longreprtext.splitlines() if line.startswith("E  ")] if report.failed else []
    with open(os.environ["CONSUMER_RESULTS"], "a") as file:
        error = (lines[0][1:].strip() if lines else "").replace("\t", " ")[:300]
        where = report.longreprtext.splitlines()[-1].replace("\t", " ")[:200] if report.failed and report.longreprtext else ""
        print(outcome, report.nodeid, error, where, sep="\t", file=file)


# the command ------------------------------------------------------------------------------------------------------
def run(module: str, backend: str, seconds: int, extra: list[str]) -> list[list[str]]:
    """How the tests of a module end: (outcome, name, error, place) of each. A test that takes over a minute fails."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results"
        results.touch()
        here = Path(__file__).parent
        env = os.environ | {
            "SCIPY_ARRAY_API": "1", "CONSUMER_BACKEND": backend, "CONSUMER_RESULTS": str(results),
            "PYTHONPATH": os.pathsep.join(filter(None, [str(here), os.environ.get("PYTHONPATH")])), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [
            sys.executable, "-m", "pytest", "-p", "consumer_suites", "-q", "--pyargs", module, "-n", "0", "-p", "no:cacheprovider",
            "-W", "ignore", "--timeout=60", "--tb=short", "-c", os.devnull, "--rootdir", folder, *extra,
        ]  # fmt: skip
        try:
            ended = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, timeout=seconds, check=False)
        except subprocess.TimeoutExpired:
            print(f"{module}: not finished in {seconds} s; what ended by then is counted", file=sys.stderr)
            ended = subprocess.CompletedProcess(command, 1, "", "")
        found = [line.split("\t") for line in results.read_text().splitlines()]
        if not found:
            print(ended.stdout[-3000:], ended.stderr[-3000:], file=sys.stderr)
        return found


def main() -> None:
    """Run and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--backend", default="tilewright.xp")
    parser.add_argument("--seconds", type=int, default=900)
    parser.add_argument("--failures", type=Path)
    parser.add_argument("-k", default=None)
    args = parser.parse_args()
    lines = []
    for module in args.modules:
        found = run(module, args.backend, args.seconds, ["-k", args.k] if args.k else [])
        count = Counter(outcome for outcome, *_ in found)
        print(f"{module:24}", *(f"{count[k]:6} {k}" for k in KINDS), flush=True)
        lines += ["\t".join(f) for f in found if f[0] == "failed"]
        if args.failures:
            args.failures.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
