"""What `mkdocs build` needs besides the pages in this folder: pages that live at the repository's root, and the package under its name.

The root of the repository is the package `tilewright`, whatever the checkout is called. mkdocstrings looks a package up by the name of its
folder, so `on_config` makes `build/api/tilewright`: one link for each folder of the package. (A link to the whole root would lead
into `build` again, without end.)"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
AT_ROOT = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages outside this folder, and what they are called on the site."""


def on_config(config: Any) -> Any:
    """Link the package for mkdocstrings. List the decision records in the navigation, and pages that it does not name under *Inside*."""
    link_package(ROOT / "build/api/tilewright")
    records = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    named = {page for section in config.nav for pages in section.values() for page in ([pages] if isinstance(pages, str) else pages)}
    for section in config.nav:
        if "Decisions" in section:
            section["Decisions"] = ["decisions/README.md", *(f"decisions/{name}" for name in records)]
        if "Inside" in section:
            section["Inside"] += sorted({path.name for path in (ROOT / "docs").glob("*.md")} - named)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root."""
    for source, page in AT_ROOT.items():
        files.append(File.generated(config, page, content=at_site(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links from this folder to pages of the root lead to their place on the site."""
    for source, name in AT_ROOT.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    return markdown


def at_site(path: Path) -> str:
    """The text of a page of the root, with its links as they are on the site."""
    text = path.read_text()
    for source, page in AT_ROOT.items():
        text = text.replace(f"]({source}", f"]({page}")
    return re.sub(r"\]\(docs/", "](", text)


def link_package(folder: Path) -> None:
    """Make `folder` hold the package: links to its files and folders, as pyproject.toml lists them."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    wanted = {"__init__.py", *(name.split(".")[1] for name in listed if "." in name)}
    folder.mkdir(parents=True, exist_ok=True)
    for name in wanted - {p.name for p in folder.iterdir()}:
        (folder / name).symlink_to(ROOT / name)
    for old in folder.iterdir():
        if old.name not in wanted:
            old.unlink()
