"""What README.md and docs/cli.md show works as shown: commands parse and run, Python runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tilewright.cli import main
from tilewright.cli.commands import build_parser
from tilewright.cli.grammar.tuning_arguments import MODES

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()
CLI = (ROOT / "docs/cli.md").read_text()


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


def commands() -> list[list[str]]:
    """Every `tune ...` that README shows, in order, in blocks and in running text, and those that docs/cli.md shows at a glance."""
    glance = CLI.partition("## At a glance")[2].partition("\n## ")[0]
    lines = [line for text in (README, glance) for block in blocks(text, "sh") for line in block.splitlines() if line.startswith("tune ")]
    lines += re.findall(r"`(tune run [^`]+)`", README)
    return [shlex.split(line, comments=True)[1:] for line in lines]


@pytest.fixture
def own_files(tmp_path: Path, known_limits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that is this test's own, and limits that are known."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))
    monkeypatch.setenv("XDG_STATE_HOME", str(known_limits))


def quick(command: list[str]) -> list[str]:
    """The same command on smaller operands, with a handful of measurements instead of a time budget."""
    command = [re.sub(r"\b(\d{3,4})\b", lambda m: str(int(m[1]) // 8), word) if "=" in word else word for word in command]
    if command[0] == "profile":
        return [*command, "--steps", "2"]
    if command[0] == "run" and not {"--shape", "--manifest"} & {*command}:
        tensors = any(word.endswith(":mlp") for word in command)
        command = [*command, "--shape", "x=16x24,w1=24x32,b1=32,w2=32x24" if tensors else "m=128,n=128"]
    if command[0] in ("bench", "pin"):
        return [*command, "--shape", "m=64,n=64,k=64", *(["--rounds", "3"] if command[0] == "bench" else [])]
    if command[0] == "check":
        return [*command, "--shape", "m=3,n=40", "--opts", "start"]
    if command[0] == "explain":
        return ["2s" if word == "20s" else word for word in command]
    if command[0] != "run":
        return command
    if "--budget" in command:
        at = command.index("--budget")
        command = command[:at] + command[at + 2 :]
    return [*command, "--trials", "2", "--quiet"]


def test_there_are_commands() -> None:
    assert {c[0] for c in commands()} == {
        *(
            "run",
            "show",
            "bench",
            "pin",
            "explain",
            "check",
            "report",
            "kernels",
            "devices",
            "cache",
            "export",
            "graph",
            "model",
            "plan",
            "profile",
        )
    }


@pytest.mark.slow
@pytest.mark.usefixtures("own_files")
def test_every_command_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    for command in commands():
        if command[0] == "model":  # needs a model: tests/bridges runs it
            assert build_parser().parse_args(command).model in ("my_model.py:make", "model.onnx", "llama.gguf")
            continue
        if command[0] == "export":  # needs a file of one's own: tests/export runs it
            assert build_parser().parse_args(command).source == "my.py:step"
            continue
        if command[0] == "plan" and "--model" in command:  # takes half a minute: tests/cli plans a smaller one
            assert build_parser().parse_args(command).model == "gpt2"
            continue
        if "--fleet" in command:  # needs machines: docs/fleet.md, and tests/fleet run such commands
            assert build_parser().parse_args(command).fleet == "tls://host:8786"
            continue
        assert main(quick(command)) == 0, (command, capsys.readouterr())
    assert (tmp_path / "result.json").is_file()


@pytest.mark.slow
@pytest.mark.usefixtures("own_files")
def test_python_blocks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tensors, use, kernel = blocks(README, "python")
    exec(compile(tensors, "README.md", "exec"), {})
    exec(compile(use.replace('budget="3s"', "trials=4"), "README.md", "exec"), {})
    assert "exact" in capsys.readouterr().out
    namespace: dict[str, object] = {}
    exec(compile(kernel, "README.md", "exec"), namespace)
    assert callable(namespace["make_kernel"])


def test_the_example_kernel_is_the_one_shown() -> None:
    assert blocks(README, "python")[2].strip() in (ROOT / "examples/energy.py").read_text()


def test_links_lead_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md", "docs/cli.md", "docs/architecture.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / page).read_text()):
            assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


def test_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = {
        m
        for page in ("README.md", "CONTRIBUTING.md")
        for m in re.findall(r"(?<![\w/])make (run|test|lint|\w+-\w+)\b", (ROOT / page).read_text())
    }
    assert named and all(re.search(rf"^{target}:", makefile, re.M) for target in named)


def test_cli_page_names_real_flags() -> None:
    def flags(parser: object) -> set[str]:
        found: set[str] = set()
        for action in parser._actions:  # type: ignore[attr-defined]
            found.update(action.option_strings)
            for sub in (action.choices or {}).values() if isinstance(action.choices, dict) else ():
                found |= flags(sub)
        return found

    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", CLI)) <= flags(build_parser())
    assert all(f"--mode {mode}" in CLI or f"`{mode}`" in CLI for mode in MODES)
