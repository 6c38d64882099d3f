"""Schedules that nobody measured for a kernel are checked before they answer, where that is asked for.

A start schedule, a neighbour's schedule, or one that other code was measured with, is run once on inputs of its own, and sampled outputs are compared with
the float64 reference (`measure.checking.first_use`). What passed is remembered in the artefact store by its source, so later
processes check nothing. What is wrong is recorded in the cache, so it never answers again."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..cache.file_check import CacheWarning
from ..cache.rows import Row, now
from ..cache.version import tool_version
from ..ir.errors import CacheError, VerifyError
from ..ir.normal_form import normalise
from ..ir.rewriter import without_aliases
from ..log import logger
from ..opts import SYNTAX, short
from .identity import canonical_of

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device, Executable
    from ..ir.kernel import Kernel
    from .artefacts import Artefacts, Built
    from .resolve import Plan

log = logger("plan")

VARIABLE = "TILEWRIGHT_CHECK"
UNMEASURED = ("start", "tree", "nearest", "stale")
"""Origins of schedules that nobody measured for the kernel, with the code that it has now."""
STRATEGY = "first use"
_CHECKER = "measure.checking.first_use:wrong"
"""What looks at a schedule. It is found by name: this folder is below the one that measures."""
PASSED = "passed"


class FirstUseWarning(RuntimeWarning):
    """A schedule computed wrong results when it was first used, and another one answers."""


@dataclass(frozen=True)
class FirstUse:
    """A program about to answer."""

    kernel: Kernel
    plan: Plan
    built: Built
    executable: Executable
    device: Device
    cache: Cache
    store: Artefacts


def wanted(check: bool | None) -> bool:
    """Whether schedules are checked: what the caller says, else what TILEWRIGHT_CHECK does."""
    return os.environ.get(VARIABLE) == "1" if check is None else check


def passed(use: FirstUse) -> bool:
    """Whether a program may answer. One that computes wrong results is recorded, with a warning. Raises VerifyError where that is the last
    schedule there is."""
    if use.plan.origin not in UNMEASURED:
        return True
    place = _store_key(use)
    if use.store.start(place) == PASSED:
        return True
    lossy = "DOWNCONVERT" in use.plan.key.policy.split("+")
    check = pkgutil.resolve_name(f"{__package__.rpartition('.')[0]}.{_CHECKER}")
    found = check(normalise(use.kernel), use.built.signature, use.executable, use.device, lossy)
    if not found:
        if found is None:
            log.info("the %s schedule of %s is not checked: it is too large", use.plan.origin, use.kernel.name)
        else:
            use.store.put_start(place, PASSED)
        return True
    said = f"the {use.plan.origin} schedule {short(use.plan.opts) or '(none)'} of {use.kernel.name} computes wrong results here: {found}"
    _record(use, found)
    if not use.plan.opts and use.plan.origin == "start":
        raise VerifyError(f"{said}. No schedule is left; please report this")
    warnings.warn(f"{said}. It is recorded as wrong, and the next one is used; please report this", FirstUseWarning, stacklevel=4)
    return False


def _store_key(use: FirstUse) -> str:
    """Where the store remembers that this code passed: it is another's after any change of source, compiler, processor or threads."""
    key = use.plan.key
    text = f"first use {use.built.sha} {key.target} {key.compiler} {use.executable.threads} {tool_version()}"
    return hashlib.sha256(text.encode()).hexdigest()


def _record(use: FirstUse, detail: str) -> None:
    """Say in the cache that the schedule is wrong."""
    key, known = use.plan.key, normalise(without_aliases(use.kernel))
    display = [o.json for o in use.plan.opts]
    row = Row(
        kernel=key.kernel,
        target=key.target,
        threads=key.threads,
        compiler=key.compiler,
        policy=key.policy,
        name=use.kernel.name,
        device=use.device.name,
        opts=canonical_of(known).to_canonical(display, SYNTAX),  # type: ignore[arg-type]
        opts_display=display,  # type: ignore[arg-type]
        outcome="wrong",
        strategy=STRATEGY,
        source_sha=use.built.sha,
        when=now(use.plan.row.when if use.plan.row is not None else ""),
        tool_version=tool_version(),
        provenance={"detail": detail, "machine": dict(use.device.fingerprint())},  # type: ignore[arg-type]
        run_id=hashlib.sha256(f"{use.built.sha} {detail}".encode()).hexdigest()[:16],
    )
    try:
        use.cache.record([row])
    except CacheError as e:  # the warning comes all the same, and this process does not use it
        warnings.warn(f"that a schedule of {use.kernel.name} is wrong could not be recorded: {e}", CacheWarning, stacklevel=3)
