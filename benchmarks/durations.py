"""How long tests take: one line a test file, the longest first.

    python benchmarks/record.py benchmarks/durations.py [arguments of pytest]

Each line has the file, the seconds of all its tests together (set-up included, of one core while others run), how many
tests it has, and its slowest test. Tests run as `make test` runs them. The benchmark fails where a test fails."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import Any


def rows(report: Path) -> list[dict[str, Any]]:
    """The lines of a report that pytest wrote by `--junitxml`."""
    files: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for case in ET.parse(report).getroot().iter("testcase"):
        files[case.get("classname", "").replace(".", "/") + ".py"].append((float(case.get("time", 0)), case.get("name", "")))
    found = []
    for file, cases in files.items():
        slowest, name = max(cases)
        total = sum(seconds for seconds, _ in cases)
        found.append({"file": file, "seconds": round(total, 2), "tests": len(cases), "slowest": name, "slowest_seconds": round(slowest, 2)})
    return sorted(found, key=lambda row: -row["seconds"])


def main() -> int:
    """Run the tests; exit with pytest's status."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "worksteal", f"--junitxml={report}", *sys.argv[1:]]
        status = subprocess.run(command, stdout=sys.stderr).returncode
        for row in rows(report) if report.exists() else ():
            print(json.dumps(row))
    return status


if __name__ == "__main__":
    sys.exit(main())
