"""Where a captured function's kernels are looked up, built and run."""

from __future__ import annotations

from ...search.ahead import BuildPlace
from .options import JitOptions


def place_of(device: str, options: JitOptions) -> BuildPlace:
    """The place that options name. Raises DeviceError, UsageError."""
    from ...cache import Cache
    from ...cache import open as opened
    from ...devices import get
    from ...plan import Artefacts

    found = get(device)
    found.check()
    threads = options.threads or found.threads
    found.check_threads(threads)
    if isinstance(options.cache, Cache):
        return BuildPlace(found, threads, options.cache, Artefacts.default(), options.cache.location)
    return BuildPlace(found, threads, opened(options.cache), Artefacts.default(), None if options.cache is None else str(options.cache))
