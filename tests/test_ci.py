"""The GitHub workflow and its action: they parse, and every command in them runs, in order, as a runner would run it
(on the scripted device)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tilewright.cli.commands import build_parser
from tilewright.search.manifest.manifest_file import load

ROOT = Path(__file__).resolve().parents[1]
ACTION = ROOT / ".github/actions/tune"
WORKFLOW: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/tune.yml").read_text())
CHECK: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows/check.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
STEPS: dict[Any, Any] = yaml.safe_load((ACTION / "action.yml").read_text())
MANIFEST = """
[targets.scripted]
device = "fake_device.py:FakeDevice"
target = "llvm:*"
threads = 1

[defaults]
trials = 3

[[kernel]]
name = "matmul"
shapes = ["m=16,n=16,k=16"]

[[kernel]]
name = "softmax"
shapes = ["m=8,n=16"]
"""


class Runner:
    """A folder in which steps run. What a step leaves in GITHUB_PATH and GITHUB_STEP_SUMMARY is there for the next ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / "fake_device.py").write_bytes((ROOT / "tests/fake_device.py").read_bytes())
        (folder / "kernels.toml").write_text(MANIFEST)
        self.path, self.summary = folder / "path", folder / "summary.md"
        self.path.touch()
        self.ran: list[str] = []

    def job(self, name: str, **inputs: str) -> int:
        """The exit code of the first step that fails, else 0. `inputs` replace those that the workflow gives to the action."""
        for step in WORKFLOW["jobs"][name]["steps"]:
            if "run" in step:
                # in the checkout; make only says what it would do, since the whole check installs with the same targets
                code = self.run(re.sub(r"^make ", "make -n ", step["run"]), ROOT, {})
            elif step["uses"].startswith("./"):
                assert ROOT / step["uses"] == ACTION
                assert set(step["with"]) <= set(STEPS["inputs"])
                code = self.action({k: v["default"] for k, v in STEPS["inputs"].items()} | step["with"] | inputs)
            else:
                code = 0
            if code:
                return code
        return 0

    def action(self, inputs: dict[str, str]) -> int:
        for step in STEPS["runs"]["steps"]:
            if "run" in step:
                env = {k: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda m: inputs[m[1]], v) for k, v in step["env"].items()}
                code = self.run(step["run"], self.folder, {**env, "GITHUB_ACTION_PATH": str(ACTION)})
                if code:
                    return code
        return 0

    def run(self, text: str, cwd: Path, env: dict[str, str]) -> int:
        assert "${{" not in text, "an expression in a script is an injection"
        self.ran.append(text)
        path = ":".join([*self.path.read_text().splitlines(), os.environ["PATH"]])
        full = {
            **os.environ,
            "PATH": path,
            "GITHUB_PATH": str(self.path),
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "COLUMNS": "200",
            **env,
        }
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", text]
        self.said = subprocess.run(command, cwd=cwd, env=full, capture_output=True, text=True, timeout=240)
        return self.said.returncode


@pytest.mark.slow
def test_the_round_trip(tmp_path: Path) -> None:
    tuner, requirer = Runner(tmp_path / "tuner"), Runner(tmp_path / "requirer")
    given = {"manifest": "kernels.toml", "budget": "200s"}
    assert tuner.job("tune", **given) == 0, tuner.said.stderr
    assert "2 tuned" in tuner.said.stdout
    bundle = tuner.folder / "schedules.jsonl"
    assert len(bundle.read_text().splitlines()) == 3, "a header and the two winners"
    assert (tuner.folder / ".tilewright/ci.db").is_file()
    said = tuner.summary.read_text()
    assert "all 2 entries are in the cache" in said and re.search(r"matmul.*\|.*16,.*\| scripted \| present \|", said)
    assert said.count("matmul") >= 2, "the report's table is there as well"

    (requirer.folder / "schedules.jsonl").write_bytes(bundle.read_bytes())
    assert requirer.job("require", **given) == 0, requirer.said.stdout
    for r in (tuner, requirer):
        assert len({*r.ran}) == sum("run" in s for s in [*WORKFLOW["jobs"]["tune"]["steps"], *STEPS["runs"]["steps"]])


@pytest.mark.slow
def test_what_fails_fails_the_step_and_keeps_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = Runner(tmp_path / "r")
    script = runner.folder / "script.json"
    script.write_text(json.dumps({"rules": [{"text": "softmax", "do": "crash"}]}))
    runner.path.write_text(str(Path(sys.executable).parent))
    inputs = {k: v["default"] for k, v in STEPS["inputs"].items()} | {"budget": "200s"}
    monkeypatch.setenv("TILEWRIGHT_FAKE_SCRIPT", str(script))
    assert runner.action(inputs) == 4
    assert "failed: softmax m=8,n=16" in runner.said.stdout
    assert [json.loads(x).get("name") for x in (runner.folder / "schedules.jsonl").read_text().splitlines()] == [None, "matmul"]
    assert "1 of 2 entries" in runner.summary.read_text()
    assert runner.action({**inputs, "mode": "require", "targets": "scripted"}) == 5
    assert "missing: softmax m=8,n=16 float32 for scripted" in runner.said.stdout and "| **missing** |" in runner.summary.read_text()
    assert runner.action({**inputs, "mode": "require", "targets": "a b"}) == 2 and "has no target 'a'" in runner.said.stderr
    assert runner.action({**inputs, "mode": "both"}) == 2
    before = (runner.folder / "schedules.jsonl").read_bytes()
    (runner.folder / "kernels.toml").write_text("kernels = 1")
    assert runner.action(inputs) == 2 and (runner.folder / "schedules.jsonl").read_bytes() == before
    (runner.folder / "schedules.jsonl").write_text("{}")
    assert runner.action(inputs) == 2 and "a bundle begins with" in runner.said.stderr


def test_what_they_use_is_pinned_and_nothing_more_is_allowed() -> None:
    jobs = [*WORKFLOW["jobs"].values(), *CHECK["jobs"].values()]
    steps = [s for job in jobs for s in job["steps"]] + STEPS["runs"]["steps"]
    used = [s["uses"] for s in steps if "uses" in s and not s["uses"].startswith("./")]
    assert used and all(re.fullmatch(r"actions/[\w/-]+@v\d+", u) for u in used)
    assert WORKFLOW["permissions"] == CHECK["permissions"] == {"contents": "read"}
    assert all("shell" in s for s in STEPS["runs"]["steps"] if "run" in s), "a composite action must name its shell"
    for workflow in (WORKFLOW, CHECK):
        assert set(workflow[True]) == {"push", "pull_request", "workflow_dispatch"}, "YAML reads the key `on` as true"


def test_lint_documentation_and_tests_run_on_every_pull_request() -> None:
    said = [s["run"] for job in CHECK["jobs"].values() for s in job["steps"] if "run" in s]
    assert {"make lint", "make docs", "make test"} <= {*said}
    for text in said:
        assert "${{" not in text, "an expression in a script is an injection"
        command = re.sub(r"^make ", "make -n ", text).replace("bash ", "bash -n ")
        assert subprocess.run(command.split(), cwd=ROOT, capture_output=True, timeout=240).returncode == 0, text


def test_hooks_before_a_commit_are_local_and_exist() -> None:
    assert [r["repo"] for r in HOOKS] == ["local"], "nothing is fetched"
    hooks = HOOKS[0]["hooks"]
    assert [h["id"] for h in hooks] == ["ruff", "ruff-format", "lint", "docs"]
    for hook in hooks:
        program, first, *_ = hook["entry"].split()
        if program == "make":
            assert re.search(rf"^{first}:", (ROOT / "Makefile").read_text(), re.M)
        else:
            assert program.startswith(".venv/bin/") and (Path(sys.executable).parent / Path(program).name).exists(), hook


def test_the_example_manifest_is_a_manifest() -> None:
    m = load(ROOT / "examples/kernels.toml")
    assert len(m.entries) == 4
    assert tomllib.loads((ROOT / "examples/kernels.toml").read_text())["targets"]


def test_the_whole_check_makes_the_round_trip() -> None:
    text = (ROOT / ".ci/run").read_text()
    assert (
        text.index("make lint")
        < text.index("make docs")
        < text.index(".ci/round_trip")
        < text.index(".ci/levels")
        < text.index("make test")
    )
    for script in (".ci/run", ".ci/round_trip", ".ci/levels", ".github/actions/tune/tune.sh"):
        assert subprocess.run(["bash", "-n", ROOT / script], timeout=240).returncode == 0
        assert os.access(ROOT / script, os.X_OK)
    assert "examples/kernels.toml" in (ROOT / ".ci/round_trip").read_text()


@pytest.mark.parametrize("page", ["docs/ci.md"])
def test_what_the_page_shows_is_real(page: str, tmp_path: Path) -> None:
    """Its manifests load, its workflow parses and gives the action inputs that there are, its commands parse."""
    text = (ROOT / page).read_text()
    shown = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    manifests = [body for kind, body in shown if kind == "toml"]
    assert manifests
    for body in manifests:
        (tmp_path / "kernels.toml").write_text(body)
        (tmp_path / "mine.py").write_text((ROOT / "examples/energy.py").read_text())
        assert load(tmp_path / "kernels.toml").entries
    workflows = [yaml.safe_load(body) for kind, body in shown if kind == "yaml"]
    given = [s["with"] for w in workflows for job in w["jobs"].values() for s in job["steps"] if "actions/tune" in s.get("uses", "")]
    assert given and all(set(g) <= set(STEPS["inputs"]) for g in given)
    commands = [line.split() for kind, body in shown if kind == "sh" for line in body.splitlines() if line.startswith("tune ")]
    assert len(commands) >= 4
    for words in commands:
        end = words.index("#") if "#" in words else len(words)
        assert build_parser().parse_args(words[1:end]).command


def test_the_parts_that_other_levels_run_exist() -> None:
    """pytest runs nothing at all where one of the paths that it is given is gone."""
    named = re.findall(r"tests/[\w/.]+", (ROOT / ".ci/levels").read_text())
    assert len(named) > 10 and not [path for path in named if not (ROOT / path).exists()]
