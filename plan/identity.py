"""What a kernel and a target are for the stores: canonical names and keys."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING

from ..cache.keys import DEFAULT_POLICY, FIXED, Key
from ..cache.objective_types import TIME
from ..files.strict import canon
from ..ir.fixed_sums import fixed
from ..ir.kernel import Kernel
from ..ir.normal_form import Canonical, canonical
from ..opts import SYNTAX, parse

if TYPE_CHECKING:
    from ..cache.rows import Row
    from ..devices import Device
    from ..opts import Opt, Opts
    from ..targets import Target


def canonical_of(kernel: Kernel) -> Canonical:
    """`ir.normal_form.canonical`: computed once for each kernel object."""
    return canonical(kernel)


def key_of(kernel: Kernel, device: Device, threads: int | None = None, policy: str = DEFAULT_POLICY, objective: str = TIME) -> Key:
    """The strict cache key of running `kernel` on `device` with `threads` (default: the device's)."""
    return Key(
        canonical(kernel).hash,
        device.target.key,
        threads or device.threads,
        device.compiler_id(),
        FIXED if kernel.fixed else policy,
        objective,
    )


def with_numerics(kernel: Kernel, policy: str) -> Kernel:
    """The kernel with a fixed order of its sums where the policy says so; as it was written, for the normal form drops axes."""
    return fixed(kernel) if policy == FIXED else kernel


def opts_text(kernel: Kernel, opts: Iterable[Opt]) -> str:
    """Options in canonical names as canonical JSON, the form a row keeps. Raises OptError for names that the normal form lacks."""
    return canon(canonical(kernel).to_canonical([o.json for o in opts], SYNTAX))


def opts_of(row: Row, names: Canonical) -> Opts:
    """A row's options in the names of a kernel. Raises OptError for names that it lacks."""
    return opts_from(row.opts, names)


def opts_from(text: str, names: Canonical) -> Opts:
    """The same of what `opts_text` wrote."""
    return parse(names.from_canonical(json.loads(text), SYNTAX))


def source_key(kernel: Kernel, opts: Iterable[Opt], target: Target, code: str) -> str:
    """Identifies the source that options give, without making it: kernel (names and parameter order too, as they show in signatures),
    options, target (with its sizes) and code of the tool. `kernel` is in normal form."""
    fields = asdict(target)
    fields["features"] = sorted(fields["features"])
    return hashlib.sha256(canon([canonical(kernel).identity, [o.json for o in opts], fields, code]).encode()).hexdigest()
