"""Builds the wheel (PEP 517): `make` builds the library in the folder above, and it goes in beside the Python files."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sysconfig
import zipfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
VERSION = "1"


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """Write the wheel; returns its name."""
    package = next(p.parent for p in HERE.glob("*/caller.py"))
    name, title = package.name, package.name.strip("_") or "exported"
    subprocess.run(["make", "-s", f"lib{name}.so"], cwd=HERE.parent, check=True)
    tag = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    info = f"{title}-{VERSION}.dist-info"
    files = {f"{name}/{f}": (package / f).read_bytes() for f in ("__init__.py", "caller.py", "facts.json")}
    files[f"{name}/lib{name}.so"] = (HERE.parent / f"lib{name}.so").read_bytes()
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {title}\nVersion: {VERSION}\nRequires-Dist: numpy\n".encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tilewright\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    digests = {f: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() for f, data in files.items()}
    rows = [f"{f},sha256={digests[f]},{len(data)}" for f, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    wheel = f"{title}-{VERSION}-{tag}.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as z:
        for f, data in files.items():
            z.writestr(f, data)
    return wheel
