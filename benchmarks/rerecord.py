"""Record again what README and docs quote, or say which of it the code has changed since.

    python benchmarks/rerecord.py            every file below results/ that they name and `record.py` wrote, by its own command (make bench; hours)
    python benchmarks/rerecord.py --check    files with commit and date, and the folders of the package that changed since (make bench-check)
    python benchmarks/rerecord.py [--check] NAME ...    of these files only

Nothing fails where figures are old: the check is for whoever quotes them."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RECORD = "python benchmarks/record.py "
NO_CODE = {"tests", "docs", "results", "examples", "scripts", "benchmarks"}
"""Folders whose files change no figure; of `benchmarks` the script itself does."""


def quoted() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Each recorded file that README or a page of docs names, itself or its benchmark, with what it holds."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    text = "\n".join(p.read_text() for p in pages)
    named = set(re.findall(r"(?:results|benchmarks)/([\w./-]+?)\.(?:json|py)\b", text))
    for path in sorted((ROOT / "results").rglob("*.json")):
        name = str(path.relative_to(ROOT / "results").with_suffix(""))
        held = json.loads(path.read_text())
        command = held.get("command") if isinstance(held, dict) else None
        if isinstance(command, str) and RECORD in command and (name in named or Path(script(command)).stem in named):
            yield path, held


def script(command: str) -> str:
    """The benchmark that a command records."""
    return command.split(RECORD, 1)[1].split()[0]


def git(*words: str) -> list[str]:
    """The lines that git prints."""
    return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def changed(path: Path, held: dict[str, Any]) -> tuple[str, Counter[str]]:
    """(the commit that a file was measured at, how many files of each folder changed since). A file that does not say, or names a commit that was
    rebased since, is of the commit it came with."""
    commit = held.get("commit", "").removesuffix("+")
    if subprocess.run(["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True).returncode:
        commit = next(iter(git("log", "-1", "--format=%H", "--", str(path))), "")
    if not commit:
        return "none", Counter()
    files = [f for f in git("diff", "--name-only", commit, "HEAD") if f.endswith((".py", ".c"))]
    mine = script(held["command"])
    return commit, Counter(f.split("/")[0] for f in files if f == mine or (f.split("/")[0] not in NO_CODE and "/" in f))


def main() -> int:
    """Exit with the number of benchmarks that failed; the check always succeeds."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("names", nargs="*", metavar="NAME")
    p.add_argument("--check", action="store_true")
    args = p.parse_args()
    failed = 0
    for path, held in quoted():
        if args.names and path.stem not in args.names:
            continue
        if args.check:
            commit, since = changed(path, held)
            said = ", ".join(f"{folder} {n}" for folder, n in sorted(since.items())) or "nothing"
            device = held.get("device", {})
            on = device.get("cpu") or device.get("name", "") if isinstance(device, dict) else device
            print(f"{path.relative_to(ROOT)}: {held.get('date', 'no date')}, {commit[:8]}, {on}; changed since: {said}")
        elif path.parent == ROOT / "results":  # (those of other machines stay as they are)
            print(f"== {held['command']}", flush=True)
            command = held["command"].replace(RECORD, f"{sys.executable} benchmarks/record.py ")
            failed += subprocess.run(command, cwd=ROOT, shell=True, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
