"""The build backend: setuptools', and after an editable install type checkers find the types too.

The package is the repository's root, whatever the checkout is called. So setuptools makes an editable install findable
by a hook that runs at import, which mypy and pyright cannot follow: they read folders that `.pth` files name. Such a file
is added here. Its folder holds `tilewright-stubs`, the name of a package with types only (PEP 561), which Python never
imports, of links to the checkout."""

from __future__ import annotations

import base64
import hashlib
import os
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from setuptools import build_meta as setuptools_backend

build_sdist = setuptools_backend.build_sdist
build_wheel = setuptools_backend.build_wheel
get_requires_for_build_editable = setuptools_backend.get_requires_for_build_editable
get_requires_for_build_sdist = setuptools_backend.get_requires_for_build_sdist
get_requires_for_build_wheel = setuptools_backend.get_requires_for_build_wheel
prepare_metadata_for_build_editable = setuptools_backend.prepare_metadata_for_build_editable
prepare_metadata_for_build_wheel = setuptools_backend.prepare_metadata_for_build_wheel

ROOT = Path(__file__).resolve().parents[1]
STUBS = Path("build/stubs")
PTH = "__editable__.tilewright_types.pth"


def build_editable(wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None) -> str:
    """setuptools' editable wheel, with a `.pth` file for type checkers in it. Returns the wheel's name."""
    name: str = setuptools_backend.build_editable(wheel_directory, config_settings, metadata_directory)
    try:
        link_types(ROOT)
    except OSError as e:  # Windows lets not everybody make links
        print(f"type checkers will not find tilewright's types: {e}", file=sys.stderr)
        return name
    add(Path(wheel_directory) / name, PTH, f"{ROOT / STUBS}\n".encode())
    return name


def link_types(root: Path) -> Path:
    """Make `build/stubs/tilewright-stubs` in a checkout, a link for each folder of the package; returns it. mypy wants
    `__init__.pyi` at the top of a package with types only."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    links = {name.split(".")[1]: name.split(".")[1] for name in settings["packages"] if "." in name} | {"__init__.pyi": "__init__.py"}
    links |= {name.split(".")[1]: folder for name, folder in settings["package-dir"].items() if "." in name}
    folder = root / STUBS / "tilewright-stubs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for link, to in links.items():
        (folder / link).symlink_to(os.path.relpath(root / to, folder))
    return folder


def add(wheel: Path, file: str, data: bytes) -> None:
    """Put one more file into a wheel and into its RECORD."""
    with zipfile.ZipFile(wheel) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    record = next(n for n in parts if n.endswith(".dist-info/RECORD"))
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    parts[record] = f"{file},sha256={digest},{len(data)}\n".encode() + parts[record]
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in {file: data, **parts}.items():
            archive.writestr(name, content)
