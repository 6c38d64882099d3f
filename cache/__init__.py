"""The schedule cache: measurements by strict key, fast look-up, bundles, layers.

Read `store` first; `lookup` is the path that runs at JIT time and imports neither SQLAlchemy nor NumPy.
"""

from __future__ import annotations

import os

from .. import ir as _ir  # noqa: F401
from .bundles import HEADER as BUNDLE_HEADER
from .bundles import Imported
from .file_check import CacheWarning
from .keys import DEFAULT_POLICY, Key, policy
from .lookup import lookup
from .lookup_report import Field, LookupReport
from .ranking import Standing
from .rows import OUTCOMES, Row
from .store import Cache
from .version import SCHEMA, tool_version

__all__ = [
    "BUNDLE_HEADER",
    "Cache",
    "CacheWarning",
    "DEFAULT_POLICY",
    "LookupReport",
    "Field",
    "Imported",
    "Key",
    "OUTCOMES",
    "Row",
    "SCHEMA",
    "Standing",
    "lookup",
    "open",
    "policy",
    "tool_version",
]


def open(location: str | os.PathLike[str] | None = None) -> Cache:
    """`Cache.open`: the cache at a path or URL, else by TILEWRIGHT_CACHE, else the default layers."""
    return Cache.open(location)
