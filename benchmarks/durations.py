"""Processor time of the tests: where a run of `make test` spends it.

    python benchmarks/record.py benchmarks/durations.py [arguments of pytest]
    python benchmarks/durations.py --write [arguments of pytest]      # tests/support/costs.json: which tests `make test` takes a part of

Rows are folders, files and the 100 slowest tests (of a parametrized one each case is a test), the longest first. Each has
`cpu_s`, processor seconds of user and system of the test's process and of the children that it waited for, set-up included;
`seconds`, which passed meanwhile, so those of a busy machine are more; and `tests`, how many. The row `run` has the processor
seconds of the whole command, with collection and what is between tests. Tests run as `make test` runs them. The benchmark
fails where a test fails."""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from thorough import COSTS, COSTS_FILE, ENOUGH_S

WHERE = "TILEWRIGHT_DURATIONS"
SLOWEST = 100


def used_s() -> float:
    """Processor seconds of this process and of its children that have ended."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(r.ru_utime + r.ru_stime for r in both)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """As a plug-in of pytest: one line a test, into a file for each process."""
    before, began = used_s(), time.monotonic()
    try:
        return (yield)
    finally:
        line = json.dumps([item.nodeid, used_s() - before, time.monotonic() - began])
        with (Path(os.environ[WHERE]) / str(os.getpid())).open("a") as out:
            out.write(line + "\n")


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """One line a case that is left out, without times."""
    with (Path(os.environ[WHERE]) / str(os.getpid())).open("a") as out:
        out.writelines(json.dumps([item.nodeid, None, None]) + "\n" for item in items)


def read(folder: Path) -> list[tuple[str, float | None, float | None]]:
    """What the plug-in wrote into `folder`."""
    return [tuple(json.loads(line)) for path in folder.iterdir() for line in path.read_text().splitlines()]


def costs(lines: Iterable[tuple[str, float | None, float | None]], known: dict[str, float]) -> dict[str, float]:
    """Processor seconds of a case (the mean) of tests of which all cases together take more than ENOUGH_S; `known` are those of tests
    that were not run."""
    cases: dict[str, dict[str, float | None]] = defaultdict(dict)
    for name, cpu_s, _ in lines:
        cases[name.partition("[")[0]].setdefault(name, cpu_s)
    means = {t: statistics.fmean(s) for t, of in cases.items() if len(of) > 1 and (s := [s for s in of.values() if s is not None])}
    found = {t: round(s, 3) for t, s in means.items() if s * len(cases[t]) > ENOUGH_S}
    return dict(sorted(({t: s for t, s in known.items() if t not in means} | found).items()))


def rows(lines: Iterable[tuple[str, float | None, float | None]]) -> list[dict[str, Any]]:
    """The rows of what was run."""
    tests = [(name, cpu_s, s) for name, cpu_s, s in lines if cpu_s is not None and s is not None]
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
    for name, cpu_s, seconds in tests:
        file = name.partition("::")[0]
        for key in (("folder", "/".join(file.split("/")[:2]) if file.count("/") > 1 else "tests"), ("file", file)):
            sums[key] = [a + b for a, b in zip(sums[key], (cpu_s, seconds, 1), strict=True)]
    slowest = sorted(tests, key=lambda t: -t[1])[:SLOWEST]
    found = [(kind, name, *of) for (kind, name), of in sums.items()] + [("test", *t, 1) for t in slowest]
    order = ("folder", "file", "test")
    found.sort(key=lambda row: (order.index(row[0]), -row[2]))
    return [{kind: name, "cpu_s": round(cpu_s, 2), "seconds": round(s, 2), "tests": int(n)} for kind, name, cpu_s, s, n in found]


def main() -> int:
    """Run the tests; exit with pytest's status."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
        write, arguments = "--write" in sys.argv[1:], [a for a in sys.argv[1:] if a != "--write"]
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", "-p", "durations", *arguments]
        began = time.monotonic()
        status = subprocess.run(command, stdout=sys.stderr, env={**os.environ, "PYTHONPATH": path, WHERE: folder}).returncode
        lines = read(Path(folder))
        found = rows(lines)
        if write:
            COSTS_FILE.write_text(json.dumps(costs(lines, COSTS), indent=0) + "\n")
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = {"cpu_s": round(used.ru_utime + used.ru_stime, 1), "seconds": round(time.monotonic() - began, 1)}
        print(json.dumps({"run": "make test", **run, "tests": sum(row["tests"] for row in found if "folder" in row)}))
        for row in found:
            print(json.dumps(row))
    return status


if __name__ == "__main__":
    sys.exit(main())
