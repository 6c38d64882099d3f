"""Run the workflow of docs/ci.md as it is written, in a scratch repository: its package is installed, its action's script runs, step by step.

`python .ci/scratch.py FOLDER`: makes FOLDER. The jobs run one after another; an artifact is carried from one to the next, as the runner would.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
MANIFEST = """
[targets.server]
target = "llvm:*"
threads = 1

[defaults]
trials = 4

[[kernel]]
name = "matmul"
shapes = ["m=64,n=64,k=64"]
"""


def workflow() -> dict[str, Any]:
    """The YAML of the page that has jobs."""
    shown = re.findall(r"^```yaml\n(.*?)^```", (ROOT / "docs/ci.md").read_text(), re.M | re.S)
    return next(w for w in map(yaml.safe_load, shown) if "jobs" in w)


def checkout(folder: Path) -> None:
    """A project of a stranger, with Tilewright as a submodule."""
    folder.mkdir(parents=True)
    (folder / "kernels.toml").write_text(MANIFEST)
    subprocess.run(["git", "init", "-q", folder], check=True)
    shell(["git", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(ROOT), "third_party/tilewright"], folder, {})


def shell(command: list[str], folder: Path, env: dict[str, str]) -> None:
    """One command of a step; the whole check fails where it does."""
    done = subprocess.run(command, cwd=folder, env={**os.environ, **env})
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)} exited with {done.returncode}")


def run(
    steps: list[dict[str, Any]], folder: Path, env: dict[str, str], inputs: dict[str, str] | None = None, action: Path | None = None
) -> None:
    """The steps of a job, or of a composite action with `inputs`."""
    for step in steps:
        uses = step.get("uses", "")
        if "run" in step:
            filled = {k: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: (inputs or {})[m[1]], v) for k, v in step.get("env", {}).items()}
            shell(["bash", "-eo", "pipefail", "-c", step["run"]], folder, {**env, **filled, "GITHUB_ACTION_PATH": str(action)})
        elif uses.startswith("./"):
            place = folder / uses
            made = yaml.safe_load((place / "action.yml").read_text())
            given = {k: v["default"] for k, v in made["inputs"].items()} | step["with"] | {"budget": "2m"}
            run(made["runs"]["steps"], folder, env, {**given, "targets": given["targets"] and "server"}, place)


def main(folder: Path) -> None:
    artifact: bytes | None = None
    for name, job in workflow()["jobs"].items():
        print(f"== scratch repository: job {name}", flush=True)
        place = folder / name
        checkout(place)
        venv.create(folder / "venv", with_pip=True, clear=name == next(iter(workflow()["jobs"])))
        if artifact is not None:
            (place / "schedules.jsonl").write_bytes(artifact)
        summary = place / "summary.md"
        env = {
            "PATH": f"{folder / 'venv/bin'}:{os.environ['PATH']}",
            "GITHUB_STEP_SUMMARY": str(summary),
            "PIP_QUIET": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }
        run(job["steps"], place, env)
        artifact = (place / "schedules.jsonl").read_bytes()
        if "all 1 entries are in the cache" not in summary.read_text():
            raise SystemExit(f"error: the summary of {name} does not say that everything is there")
        if name == "tune":
            # what the action keeps is the one file; it must hold all
            copy = folder / "kept.db"
            shutil.copy(place / ".tilewright/ci.db", copy)
            told = subprocess.run(
                [folder / "venv/bin/tune", "cache", "list", "--cache", copy, "--format", "json"], capture_output=True, text=True, check=True
            )
            if '"matmul"' not in told.stdout:
                raise SystemExit("error: the cache that the job keeps is empty")
    print("== scratch repository: done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
