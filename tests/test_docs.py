"""The documentation is true: links lead somewhere, paths exist, commands parse, tables are those of the code, and
output is what the code says."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import shlex
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from tilewright.cli.commands import build_parser

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))
NOT_HERE = {"my.py", "mine.py", "path/to/echo.py", ".tilewright/cache.db", ".venv/bin/python", "tests/.../x.py"}
"""Paths that pages show as a user's, or that a command makes."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def module(path: Path) -> ModuleType:
    """A file that is not in the package, loaded by its path."""
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(path: Path) -> set[str]:
    """What `#...` may name on a page."""
    headings = re.findall(r"^#+ (.*)$", prose(path.read_text()), re.M)
    return {re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", h)).strip().lower()) for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", prose(page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (page.parent / file) if file else page
        assert there.exists(), f"{name(page)} links to {target}"
        if anchor:
            assert anchor in anchors(there), f"{name(page)} links to {target}: {file} has no such heading"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_paths_that_are_named_exist(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return  # a history names files of its time
    for path in re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|md|hpp|html|toml|yml|json|sh))`", page.read_text()):
        assert path in NOT_HERE or (ROOT / path).exists(), f"{name(page)} names {path}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_parse(page: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.M | re.S)
    for line in "".join(blocks).splitlines():
        if line.startswith("tune "):
            assert build_parser().parse_args(shlex.split(line, comments=True)[1:]).command, f"{name(page)}: {line}"


def docstrings(path: Path) -> str:
    """All docstrings of a file."""
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    return "\n".join(ast.get_docstring(n) or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, kinds))


def resolves(dotted: str) -> bool:
    """Whether `room.module.name` is a module, or what a module or class of the package has."""
    parts = ["tilewright", *dotted.removesuffix(".py").replace("/", ".").split(".")]
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for attribute in parts[cut:]:
            if not hasattr(found, attribute):
                return attribute in getattr(found, "__annotations__", {})
            found = getattr(found, attribute)
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("room", sorted(p.parent.name for p in ROOT.glob("*/__init__.py")))
def test_docstrings_name_what_is_there(room: str) -> None:
    rooms = "|".join(p.parent.name for p in ROOT.glob("*/__init__.py"))
    pattern = re.compile(rf"`(?:tilewright\.)?((?:{rooms})(?:[./]\w+)+)(?:\(\))?`")
    wrong = []
    for path in sorted((ROOT / room).rglob("*.py")):
        for dotted in set(pattern.findall(docstrings(path))):
            if not re.search(r"\.(json|toml|db|c|hpp)$", dotted) and not resolves(dotted) and not (ROOT / dotted).exists():
                wrong.append(f"{name(path)} names {dotted}")
    assert not wrong, "\n".join(wrong)


def folder_lists() -> dict[str, set[str]]:
    """The table of docs/architecture.md: folder → folders it may import."""
    rows = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", (DOCS / "architecture.md").read_text(), re.M)
    out: dict[str, set[str]] = {}
    for folder, allowed in rows:
        if allowed.startswith("all above"):
            out[folder] = {*out} - {*re.findall(r"`(\w+)`", allowed)}
        else:
            out[folder] = set(allowed.strip("`").split()) - {"nothing"}
    return out


def test_the_table_of_folders_is_the_one_that_is_held() -> None:
    held = module(ROOT / "tests/test_layout.py").MAY_IMPORT
    assert folder_lists() == {folder: set(allowed) for folder, allowed in held.items()}


@pytest.mark.parametrize("record", DECISIONS, ids=lambda p: p.name)
def test_a_decision_has_its_form(record: Path) -> None:
    text = record.read_text()
    number, title = re.match(r"# (\d+)\. (.+)\n", text).groups()  # type: ignore[union-attr]
    assert int(number) == int(record.name[:4])
    assert re.findall(r"^## (.*)$", text, re.M) == ["Context", "Decision", "Consequences"]
    assert f"| {number} | [{title}]({record.name}) |" in (record.parent / "README.md").read_text(), "the index lacks it"


def test_decisions_are_numbered_without_a_gap() -> None:
    assert DECISIONS and [int(p.name[:4]) for p in DECISIONS] == [*range(1, len(DECISIONS) + 1)]


def test_the_glossary_is_in_order() -> None:
    terms = re.findall(r"^## (.*)$", (DOCS / "glossary.md").read_text(), re.M)
    assert len(terms) > 80 and terms == sorted(terms, key=str.lower)
    assert len({t.lower() for t in terms}) == len(terms)


@pytest.mark.slow
def test_the_tour_is_what_the_code_says() -> None:
    tour = module(DOCS / "make_tour.py")
    page = (DOCS / "tour.md").read_text()
    assert {*re.findall(r"<!-- tour (\w+) -->", page)} == {*tour.BLOCKS}
    assert tour.made(page) == page, "run `python docs/make_tour.py` and read the difference"


def test_every_page_of_the_api_names_what_is_there() -> None:
    found = [line for page in (DOCS / "api").glob("*.md") for line in re.findall(r"^::: (\S+)", page.read_text(), re.M)]
    assert len(found) > 15
    for dotted in found:
        try:
            importlib.import_module(dotted)
        except ModuleNotFoundError:
            parent, _, attribute = dotted.rpartition(".")
            assert hasattr(importlib.import_module(parent), attribute), dotted


def test_public_folders_have_a_page_of_the_api() -> None:
    public = {"ir", "opts", "heuristics", "cache", "plan", "search", "measure", "targets", "devices", "renderers", "tensor", "tilewright"}
    listed = (ROOT / "mkdocs.yml").read_text()
    assert all((DOCS / f"api/{folder}.md").is_file() and f"api/{folder}.md" in listed for folder in public)


def test_pages_of_options_are_what_the_command_makes() -> None:
    pages = module(DOCS / "make_option_pages.py").made()
    assert {*pages} == {*(DOCS / "options").glob("*.md")}
    for path, text in pages.items():
        assert path.read_text() == text, f"{name(path)}: run `python docs/make_option_pages.py` and read the difference"


def test_the_changelog_knows_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings == [version]


def test_lines_are_short() -> None:
    """In prose and lists; tables, headings and blocks of code are as long as they must be."""
    skipped = {"ladder.md"}  # its lines are written by benchmarks/ladder.py
    long = [
        f"{name(page)}: {line[:60]}"
        for page in PAGES
        if page.name not in skipped
        for line in prose(page.read_text()).splitlines()
        if len(line) > 120 and not line.startswith(("|", "#"))
    ]
    assert not long, "\n".join(long)


def test_scripts_of_the_docs_parse() -> None:
    assert all(ast.parse(path.read_text()) for path in DOCS.glob("*.py"))
