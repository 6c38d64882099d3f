"""Run a benchmark and keep what it prints under results/, with the machine, versions, date, commit and command.

    python benchmarks/record.py benchmarks/matmul_vs_openblas.py [its arguments]

Under TILEWRIGHT_TARGET the file is named after it and says what rivals were told. The benchmark's JSON lines become
`rows`; everything else it prints is shown and not kept."""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Exit with the benchmark's status; nothing is written when it fails."""
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    script = Path(sys.argv[1])
    # bytecode is kept, as an installation has it: without it each new process compiles what it imports
    env = {k: v for k, v in os.environ.items() if not k.startswith("OPENBLAS") and k != "PYTHONDONTWRITEBYTECODE"}
    rows = []
    with subprocess.Popen([sys.executable, "-u", str(script), *sys.argv[2:]], stdout=subprocess.PIPE, text=True, env=env) as run:
        assert run.stdout is not None
        for line in run.stdout:
            print(line, end="", flush=True)
            if line.startswith("{"):
                rows.append(json.loads(line))
    if run.returncode or not rows:
        print(f"{script} failed or printed no JSON line; nothing recorded", file=sys.stderr)
        return run.returncode or 1
    keep(script.stem, f"python benchmarks/record.py benchmarks/{script.name} {' '.join(sys.argv[2:])}".strip(), rows)
    return 0


def commit() -> str:
    """The commit of the code, with a + where files differ from it; empty outside of a checkout."""

    def said(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=False, capture_output=True, text=True).stdout.strip()

    changed = said("status", "--porcelain", "--untracked-files=no", "--", ":!results")
    return said("rev-parse", "HEAD") + "+" * bool(changed)


def keep(name: str, command: str, rows: list[dict[str, Any]]) -> None:
    """Write results/NAME.json: the rows, and where, when and by which command they were measured."""
    from parts import rivals
    from tilewright.devices import get
    from tilewright.targets import lowered

    if lowered():
        # a result of its own, not another one of the whole machine
        name, command = f"{name}-{lowered().partition('=')[2]}", f"{lowered()} {command}"
    device = get(rows[0]["device"]) if isinstance(rows[0].get("device"), str) else get("cpu")
    shown = {k: v for k, v in device.fingerprint().items() if isinstance(v, (str, int, float, list)) and k not in ("host", "hostname")}
    limits = device.limits()
    out = {
        "benchmark": name,
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "device": shown,
        "limits": None if limits is None else json.loads(json.dumps(limits, default=lambda o: getattr(o, "__dict__", None) or str(o))),
        "load_average_at_end": os.getloadavg(),
        "versions": {"python": platform.python_version(), **{p: version(p) for p in ("tilewright", "numpy", "llvmlite", "optuna")}},
        **({"rivals": rivals.settings()} if lowered() else {}),
        "rows": rows,
    }
    target = ROOT / "results" / f"{name}.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(out, indent=1) + "\n")
    print(f"recorded in results/{target.name}")


if __name__ == "__main__":
    raise SystemExit(main())
