"""What others add: entry points of installed packages, and objects by import path, `package.module:name` or `path/file.py:name`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any


@functools.cache
def entry_points(group: str) -> dict[str, str]:
    """Import paths by name."""
    from importlib.metadata import entry_points as found

    return {e.name: e.value for e in found(group=group)}


def is_path(name: str) -> bool:
    """Whether a name is an import path: 'package.module:thing', 'file.py:thing', or 'module:thing' of a module that is there."""
    module, _, attribute = name.rpartition(":")
    known = "." in module or (module.isidentifier() and importlib.util.find_spec(module) is not None)
    return attribute.isidentifier() and known


def imported(path: str) -> Any:
    """The object of an import path; a file is loaded once a process. Raises ImportError, AttributeError, OSError, and whatever the module
    raises."""
    module, _, attribute = path.rpartition(":")
    found: Any = _module_file(Path(module)) if module.endswith(".py") else importlib.import_module(module)
    for part in attribute.split("."):
        found = getattr(found, part)
    return found


def _module_file(file: Path) -> Any:
    file = file.resolve()
    key = f"tilewright_plugin_{file.stem}_{abs(hash(str(file)))}"
    if key in sys.modules:
        return sys.modules[key]
    spec = importlib.util.spec_from_file_location(key, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise ImportError(f"there is no file {file}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[key]
        raise
    return module
