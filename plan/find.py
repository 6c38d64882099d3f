"""`best()`: a kernel, compiled with the best schedule that is known."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..ir.errors import DeviceError, UsageError
from ..ir.in_place import apart
from ..ir.kernel import Kernel
from ..ir.normalise import normalise
from ..ir.resized import resized
from .artefacts import Artefacts
from .bucketed import BucketedProg, divided
from .compile import build, render
from .prog import Prog
from .remote import Copying
from .resolve import Choice, resolve

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device, Executable
    from ..ir.buffer import Extent
    from ..ir.dtypes import DType
    from ..opts import Opt
    from .built import Built


def best(
    kernel: str | Kernel,
    shape: Mapping[str, Extent] | None = None,
    dtype: str | DType | None = None,
    device: str | Device = "cpu",
    threads: int | None = None,
    cache: str | os.PathLike[str] | Cache | None = None,
    exact_only: bool = False,
    *,
    store: Artefacts | None = None,
    seed: Choice = "ranked",
    allow: Iterable[str] = (),
) -> Prog:
    """The best known program for a kernel, without searching: from the cache, else from a similar kernel in it, else the seed schedule
    (`Prog.origin` tells). With `exact_only`, raises CacheMiss unless this very kernel was tuned for this device and thread count.

    `kernel`: a name (then with `shape` and `dtype`), `my.py:function`, or a Kernel. `threads`: default, all usable cores.
    `cache`: a path, a database URL or an open Cache; default as for the command line. `store`: where compiled code is kept
    between runs; default, the platform's cache folder. `seed`: 'quick' chooses a seed schedule among a few, in a few
    milliseconds, where 'ranked' has the model rank all that are known. `allow`: effects that are refused otherwise, as for
    `tune`: ["downconvert"] for what a search found that was allowed to lower precision.

    A kernel with a symbolic size that was tuned in buckets (`search.shapes.tune_buckets`) is a `BucketedProg`: a program for each part of the
    size's range.

    A schedule that this machine cannot load, having no memory for its workspace for one, is left out with a warning,
    unless `exact_only`."""
    from ..cache import Cache, open
    from ..cache.keys import allowed
    from ..cache.keys import policy as policy_of
    from ..devices import get

    allow = tuple(allow)
    policy = policy_of(allowed(allow))
    kernel = _kernel(kernel, shape, dtype)
    if threads is not None and threads < 1:
        raise UsageError(f"threads is {threads}; give at least 1, or None for all usable cores")
    place = get(device)
    place.check()
    threads = threads or place.threads
    place.check_threads(threads)
    store = store or Artefacts.default()
    opened = cache if isinstance(cache, Cache) else open(cache)
    numbers = {k: v for k, v in (shape or {}).items() if isinstance(v, int)}
    failed: list[tuple[Opt, ...]] = []
    known = apart(kernel)  # what was tuned: rows remember the source without outputs in place
    while True:
        plan = resolve(
            known, place, threads, opened, exact_only, shape=numbers or None, policy=policy, store=store, excluded=failed, seed=seed
        )
        try:
            rendered = plan.rendered if known is kernel else None
            built = build(rendered or render(normalise(kernel), plan.opts, place, store), place, store)
            return _with_buckets(Prog(kernel, plan, built, _loaded(place, built, threads)), place, opened, store, seed, allow)
        except (DeviceError, MemoryError) as e:
            if exact_only or plan.opts in failed:
                raise
            failed.append(plan.opts)
            what = f"the {plan.origin} schedule of {kernel.name} cannot be loaded here: {e or 'out of memory'}"
            warnings.warn(f"{what}. The next one is used; tune again for one that fits", RuntimeWarning, stacklevel=2)


def _with_buckets(prog: Prog, device: Device, cache: Cache, store: Artefacts, seed: Choice, allow: Iterable[str]) -> Prog:
    """The program, with those of the buckets that its symbol's range was divided into, if it was."""
    name, parts = divided(prog.kernel, prog.plan.key, cache) if prog.kernel.symbols else ("", [])
    buckets = []
    for lo, hi in parts:
        part = best(resized(prog.kernel, {name: (lo, hi)}), None, None, device, prog.threads, cache, store=store, seed=seed, allow=allow)
        if part.origin == "exact":  # what nobody measured for this part is no better than the whole range's
            buckets.append((lo, hi, part))
    return BucketedProg(prog, buckets) if buckets else prog


def _loaded(device: Device, built: Built, threads: int) -> Executable:
    """A schedule that has the memory it needs. Raises DeviceError, MemoryError."""
    executable, memory = device.load(built.obj, built.signature, threads), device.memory()
    try:
        executable.reserve()
    except BaseException:
        executable.close()
        raise
    return executable if memory is None else Copying(executable, memory)


def _kernel(kernel: str | Kernel, shape: Mapping[str, Extent] | None, dtype: str | DType | None) -> Kernel:
    if isinstance(kernel, Kernel):
        if shape is not None or dtype is not None:
            raise UsageError("shape and dtype are part of a Kernel object: give them only with a kernel's name")
        return kernel
    from ..kernels import make

    return make(kernel, shape, dtype)
