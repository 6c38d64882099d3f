"""Options to object: apply → lower → render → build, with the artefact store in front."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..cache.version import tool_version
from ..ir.kernel import Kernel
from ..ir.normal_form import normalise
from ..log import logger
from .artefacts import Built, Rendered
from .identity import source_key

if TYPE_CHECKING:
    from ..devices import Device
    from ..opts.opt import Opt
    from .artefacts import Artefacts


log = logger("plan")


def render(kernel: Kernel, opts: Iterable[Opt], device: Device, store: Artefacts | None = None) -> Rendered:
    """The source of a schedule of `kernel` as it is given. The store knows only kernels in normal form
    (`ir.normal_form.normalise`). Raises OptError for options that are not legal here, BuildError where they cannot be
    rendered."""
    opts, target = tuple(opts), device.target
    key = ""
    if store is not None and normalise(kernel) is kernel:
        key = source_key(kernel, opts, target, tool_version())
        found = store.source(key, opts, target)
        if found is not None:
            return found
    from ..lower import lower
    from ..opts import apply
    from ..renderers import render as to_source

    begin = time.perf_counter()
    scheduled = apply(kernel, opts, target)
    program = lower(scheduled)
    middle = time.perf_counter()
    source = to_source(program, target)
    rendered = Rendered(opts, source, scheduled.effects, scheduled.hash, middle - begin, time.perf_counter() - middle)
    if store is not None and key:
        store.put_source(key, rendered)
    return rendered


def build(rendered: Rendered, device: Device, store: Artefacts | None = None) -> Built:
    """The object of a source. Raises BuildError."""
    sha, compiler = rendered.sha, device.compiler_id()
    obj = store.object(sha, compiler) if store is not None else None
    seconds = 0.0
    if obj is None:
        begin = time.perf_counter()
        obj = device.build(rendered.source)
        seconds = time.perf_counter() - begin
        log.debug("source %.12s: %d bytes of object by %s in %.3g ms", sha, len(obj), compiler, 1e3 * seconds)
        if store is not None:
            store.put_object(sha, compiler, obj)
    return rendered.built(obj, seconds)


def compile(kernel: Kernel, opts: Iterable[Opt], device: Device, store: Artefacts | None = None) -> Built:
    """`render`, then `build`. Without a store nothing is read from or written to disk."""
    return build(render(kernel, opts, device, store), device, store)
