"""What builder processes do with a configuration: text, signature, object."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..ir.errors import OptError, UsageError
from ..plan.built import Built
from ..renderers import Source
from . import text
from .configurations import point, texts
from .signature import signature
from .spec import SourceSpec

if TYPE_CHECKING:
    from ..search.space import Schedule
    from .device import SourceDevice


@dataclass(frozen=True)
class SourceTask:
    """A spec, and the folder in which `references` keeps what is expected of it. What builders and the runner are told."""

    spec: SourceSpec
    references: Path


def build(task: SourceTask, opts: Schedule, device: SourceDevice) -> Built:
    """A configuration as an object that the device loads. Raises OptError for one that is not legal, or whose launch makes no
    sense, and BuildError where it does not compile."""
    spec, began = task.spec, time.perf_counter()
    at = point(spec, opts)
    given = texts(opts)
    try:
        called = signature(spec, at, text.flags_of(spec, given))
    except UsageError as e:
        raise OptError(str(e)) from None
    target = replace(device.target, lang="c") if device.family_name == "cpu" else device.target
    launch = f"// {called.block} {called.grid} {called.dynamic}\n" if spec.language in ("opencl", "cuda") else ""
    source = Source(text.whole(spec, given) + launch, spec.language, target, called)
    middle = time.perf_counter()
    obj = device.build(source)
    effects = frozenset() if spec.check.deterministic else frozenset({"NONDET"})
    return Built(tuple(opts), source, effects, source.sha, 0.0, middle - began, obj, time.perf_counter() - middle)
