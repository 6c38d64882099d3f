"""The schedule that --opts names: options in any form, or a word for one that the start schedules or the cache have."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...cache.keys import allowed, policy
from ...cache.layers import SHIPPED_RUN
from ...ir.errors import UsageError

if TYPE_CHECKING:
    from ...devices import Device
    from ...ir.kernel import Kernel
    from ...opts.opt import Opt
    from ...plan import Plan
    from ...targets import Target

WORDS = ("start", "best")
ORIGINS = {
    "exact": "best in the cache",
    "stale": "from the cache, measured with other code of Tilewright",
    "tree": "from a tree of sizes in the cache",
    "nearest": "from the nearest kernel in the cache",
    "start": "start schedule: the cache has nothing",
}


@dataclass(frozen=True)
class Chosen:
    """A schedule and where it is from, in words."""

    opts: tuple[Opt, ...]
    origin: str


@dataclass(frozen=True)
class ForTarget:
    """Where schedules are for: `device` is None for a target that need not be here."""

    target: Target
    threads: int
    device: Device | None


def chosen(text: str, kernel: Kernel, place: ForTarget, args: Namespace) -> Chosen:
    """The schedule of `kernel` (in normal form) that a text names. Raises OptError for what cannot be read, and
    UsageError for `best` where there is no device."""
    from ...opts.opt import parse

    word = text.strip().lower()
    if word == "start":
        from ...heuristics import starts

        effects = allowed(getattr(args, "allow", None) or ())
        return Chosen(
            starts(kernel, place.target, place.threads, effects)[0],
            f"start schedule for {place.threads} thread{'s' * (place.threads != 1)}",
        )
    if word == "best":
        found = cached(kernel, place, args)
        said = ORIGINS.get(found.origin, found.origin)
        if found.row is not None and found.row.pinned:
            said = "pinned by hand"
        elif found.row is not None and found.row.run_id == SHIPPED_RUN:
            kind = found.row.target.split(":")[2]
            said = f"ships with Tilewright, tuned on {kind} on {found.row.when[:10]}" + ", another processor" * (
                found.row.target != place.target.key
            )
        return Chosen(found.opts, said)
    return Chosen(parse(text), "options as given")


def cached(kernel: Kernel, place: ForTarget, args: Namespace) -> Plan:
    """What the cache answers."""
    from ...cache import open as open_cache
    from ...plan.resolve import resolve

    if place.device is None:
        raise UsageError("the cache knows what is best here, not on --target; add --opts start, or a schedule")
    with open_cache(args.cache) as store:
        return resolve(kernel, place.device, place.threads, store, policy=policy(allowed(args.allow or ())))


def device_of(args: Namespace) -> ForTarget:
    """The device and threads that the arguments name, which must be usable. Raises DeviceError."""
    from ...devices import get

    device = get(args.device)
    device.check()
    threads = args.threads or device.threads
    device.check_threads(threads)
    return ForTarget(device.target, threads, device)


def target_of(args: Namespace) -> ForTarget:
    """What the arguments name: the device, or a target that need not be here."""
    from ... import targets

    if not args.target:
        from ...devices import get

        device = get(args.device)
        return ForTarget(device.target, args.threads or device.threads, device)
    target = targets.named(args.target)
    if args.device == "cpu:c" and target.lang == "llvm":
        target = replace(target, lang="c")
    return ForTarget(target, args.threads or target.cores, None)
