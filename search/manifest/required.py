"""Is what a manifest asks for in the cache? Answered by keys alone, on a machine that need not have the device.

A key holds the target, the number of threads and the compiler's id. A named target gives the target key, the manifest
the threads. The compiler id of the `cpu` device is this installation's llvmlite; other devices' ids, like a target
key that is written with *, match what the cache holds. A row is valid when this version of the tool made it, or when
its options still render the row's source; for a target that cannot be made from its key, or a kernel whose file is
not run, that cannot be told, and the row counts as stale. Files that the manifest names are not run here: what their
kernels are, its lock says (`manifest_lock`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...cache.keys import DEFAULT_POLICY, Key, for_text
from ...cache.objectives import TIME
from ...ir.errors import TilewrightError, UsageError

if TYPE_CHECKING:
    from ...cache import Cache, Row
    from ...targets import Target
    from .manifest_file import Entry, Place

UNKNOWN = "unknown"
"""In place of a kernel's hash that nobody knows."""
LANGS = {"cpu": "llvm", "cpu:c": "c", "opencl": "opencl", "cuda": "cuda"}
"""What the built-in devices' code is written in."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an entry's key must be: `target` and `compiler` may hold *; `named` is the target to render for, where the
    manifest names one."""

    kernel: str
    target: str
    threads: int
    compiler: str
    named: Target | None = None
    objective: str = TIME
    policy: str = DEFAULT_POLICY

    def matches(self, key: Key) -> bool:
        """Whether this is such a key."""
        same = (key.kernel, key.threads, key.policy, key.objective) == (self.kernel, self.threads, self.policy, self.objective)
        return same and like(key.target, self.target) and like(key.compiler, self.compiler)

    def __str__(self) -> str:
        return f"kernel {self.kernel[:16]}, target {self.target}, {self.threads} thread{'s' * (self.threads != 1)}, compiler {self.compiler}{for_text(self.objective, self.policy)}"


@dataclass(frozen=True, slots=True)
class Checked:
    """`state`: 'present', 'stale' (`row` is there, made by other code) or 'missing'; `why` where that is not all there is to say."""

    entry: Entry
    wanted: Wanted
    state: str
    row: Row | None = None
    why: str = ""


def like(text: str, pattern: str) -> bool:
    """Equal, where * in the pattern stands for anything."""
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    last = rest.pop()
    end = len(text) - len(last)
    at = len(first)
    if not text.startswith(first) or not text.endswith(last) or end < at:
        return False
    # each part at the first place after the one before: no choice to go back on, whatever the number of stars
    for part in rest:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def target_of(place: Place) -> tuple[str, Target | None]:
    """(target key, in which * may stand; the target it names). Raises UsageError where the name and the device do not
    fit, DeviceError for no such name."""
    from ...targets import named

    if ":" in place.target or "*" in place.target:
        return place.target, None
    found = named(place.target)
    lang = LANGS.get(place.device, LANGS.get(place.device.partition(":")[0]))
    if lang is not None and found.lang != lang:
        if {found.lang, lang} != {"llvm", "c"}:
            raise UsageError(
                f"target {place.name!r}: {place.target} is for {found.lang}, not for the device {place.device}; name a target of its own, or its key"
            )
        found = replace(found, lang=lang)
    return found.key, found


def wanted(entry: Entry) -> Wanted:
    """The key of an entry, as far as it can be told without the device. Raises UsageError where the manifest must say more."""
    from ...ir.normal_form import normalise
    from ...plan.identity import canonical_of

    place = entry.place
    target, named = target_of(place)
    threads = place.threads
    if threads is None:
        if place.device == "cpu" and place.target == "host":
            from ...targets import usable_cores

            threads = usable_cores()
        elif (named is not None and named.kind == "gpu") or place.device.startswith("cuda"):
            threads = 1
        else:
            raise UsageError(f"target {place.name!r} needs threads: how many {place.target} uses cannot be told here")
    compiler = place.compiler
    if compiler is None:
        compiler = "*"
        if place.device == "cpu":
            from ...devices.cpu.device import CpuDevice

            compiler = CpuDevice().compiler_id()
    hash = (
        canonical_of(normalise(entry.made)).hash if entry.made is not None else entry.record.kernel if entry.record is not None else UNKNOWN
    )
    return Wanted(hash, target, threads, compiler, named, entry.objective, entry.policy)


def check(entry: Entry, cache: Cache) -> Checked:
    """Look an entry up; never builds, runs or measures anything."""
    want = wanted(entry)
    if want.kernel == UNKNOWN:
        return Checked(entry, want, "missing", why=entry.why)
    if "*" in want.target + want.compiler:
        rows = cache.rows(kernel=want.kernel, threads=want.threads, policy=want.policy, verified=True, outcome="ok")
        keys = [k for k in dict.fromkeys(r.key for r in rows) if want.matches(k)]
    else:
        keys = [Key(want.kernel, want.target, want.threads, want.compiler, want.policy, want.objective)]
    found = [row for key in keys for row in cache.answers(key)]
    for row in found:
        if _valid(entry, want, row):
            return Checked(entry, want, "present", row)
    if not found:
        return Checked(entry, want, "missing")
    why = "" if entry.made is not None else "made by other code of Tilewright, and without --trust the kernel's file is not run to compare"
    return Checked(entry, want, "stale", found[0], why)


def _valid(entry: Entry, want: Wanted, row: Row) -> bool:
    """Whether the row's options still apply, and mean the source that was measured."""
    from ...cache.version import tool_version

    target = want.named if want.named is not None and want.named.key == row.target else rebuilt(row.target)
    if target is None or entry.made is None:
        return row.tool_version == tool_version()
    from ...ir.normal_form import normalise
    from ...lower import lower
    from ...opts import apply
    from ...plan.identity import canonical_of, opts_of
    from ...renderers import render

    kernel = normalise(entry.made)
    try:
        scheduled = apply(kernel, opts_of(row, canonical_of(kernel)), target)
        return row.tool_version == tool_version() or render(lower(scheduled), target).sha == row.source_sha
    except TilewrightError:
        return False


def rebuilt(key: str) -> Target | None:
    """The target of a key, as far as code for it goes: caches and cores, which a processor's key leaves out, are
    nominal. None for keys that do not say enough."""
    from ...targets import Target
    from ...targets.table import lookup, vector_shape

    lang, *parts = key.split(":")
    if lang not in ("llvm", "c") or len(parts) != 3:
        return None
    arch, cpu, flags = parts
    features = frozenset(flags.split("+")) if flags else frozenset()
    known = lookup(cpu)
    if known is not None and known.arch == arch and known.features == features:
        return replace(known, lang=lang)
    return Target(cpu, lang, arch, cpu, features, *vector_shape(arch, features), 1, 32 << 10, 256 << 10, 4 << 20)
