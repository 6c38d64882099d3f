"""The kernels of a captured function: each distinct one looked up in the cache once, and built, the heaviest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.errors import CacheMiss
from ...search.parallel_builds import BuildHelpers, BuildPlace
from ..fusion.call_list import KernelCall
from ..partition.store_rules import Rule
from ..running.compiled_kernels import ProgramKey, forget, keep, key_of_program, known
from ..running.observers import timed
from .jit_options import JitOptions

if TYPE_CHECKING:
    from ...devices import Executable
    from ...ir.kernel import Kernel
    from ...plan import CompiledKernel


CHECKING = "check"
"""The origin of kernels that only say whether indices lie inside: they read each once, and are not tuned."""


@dataclass
class FoundKernel:
    """A distinct kernel of a captured function. `calls`: how many there are of it; `flops` and `nbytes`: of one call;
    `artefact`: where the store keeps its source's description; `kernel`: None where nobody had to make it."""

    name: str
    calls: int
    opts: str
    origin: str
    standing: str
    flops: int
    nbytes: int
    artefact: str
    executable: Executable
    kernel: Kernel | None = None

    @property
    def exact(self) -> bool:
        """Whether it runs with a schedule that was measured for it, or needs none."""
        return self.origin in ("exact", CHECKING)


def weight(kernel: Kernel) -> tuple[int, int]:
    """(operations, bytes) of a call."""
    from ...ir.cost import cost

    if kernel.symbols:
        return 0, 0
    work = cost(kernel)
    return work.flops + work.poly_flops, work.bytes


def looked_up(
    calls: Sequence[tuple[KernelCall, int]], device: str, place: BuildPlace, options: JitOptions, helpers: BuildHelpers
) -> tuple[dict[int, FoundKernel], list[FoundKernel]]:
    """(by the position of a call its kernel, the distinct kernels, heaviest first), of calls and how often each is made. Raises CacheMiss
    with tune="require"."""
    keys: dict[int, ProgramKey] = {}
    distinct: dict[ProgramKey, Kernel] = {}
    tuned: set[ProgramKey] = set()
    where = place.where or str(place.cache.location)
    counts: Counter[ProgramKey] = Counter()
    for i, (c, times) in enumerate(calls):
        keys[i] = key_of_program(c.kernel, device, place.threads, where)
        if any(r is not Rule.check for r in c.rules):
            tuned.add(keys[i])
        distinct.setdefault(keys[i], c.kernel)
        counts[keys[i]] += times
    weights = {k: weight(kernel) for k, kernel in distinct.items()}
    order = sorted(distinct, key=lambda k: -(weights[k][0] + 8 * weights[k][1]))
    if options.tune == "require":
        _require([distinct[k] for k in order if k in tuned], place)
    for k in order if options.checks else ():
        if (compiled := known(k)) is not None and not compiled.checked:
            forget(k)  # what answers unchecked elsewhere
    missing = {id(distinct[k]): k for k in order if known(k) is None}
    made: dict[ProgramKey, CompiledKernel] = {}

    def make(kernel: Kernel) -> None:
        made[missing[id(kernel)]] = keep(missing[id(kernel)], _built(kernel, place, options.checks))

    helpers.build([distinct[k] for k in missing.values()], make)
    found: dict[ProgramKey, FoundKernel] = {}
    for k in order:
        compiled = made.get(k) or known(k) or keep(k, _built(distinct[k], place, options.checks))
        found[k] = described(distinct[k], compiled, weights[k], counts[k], place)
        if k not in tuned:
            found[k].origin = CHECKING
    return {i: found[k] for i, k in keys.items()}, [found[k] for k in order]


def looked_up_again(k: FoundKernel, device: str, place: BuildPlace) -> FoundKernel:
    """The kernel as the cache has it now."""
    assert k.kernel is not None
    key = key_of_program(k.kernel, device, place.threads, place.where or str(place.cache.location))
    forget(key)
    return described(k.kernel, keep(key, _built(k.kernel, place)), (k.flops, k.nbytes), k.calls, place)


def _built(kernel: Kernel, place: BuildPlace, check: bool = False) -> CompiledKernel:
    from ...plan import best

    with timed("build", kernel.name, place.device.spec or place.device.name, kernel, place.threads):
        return best(kernel, device=place.device, threads=place.threads, cache=place.cache, store=place.store, start="quick", check=check)


def described(kernel: Kernel, compiled: CompiledKernel, work: tuple[int, int], calls: int, place: BuildPlace) -> FoundKernel:
    """What a report says of a kernel, and what a warm start needs to have it again."""
    from ...cache import tool_version
    from ...ir.normal_form import normalise
    from ...plan.identity import source_key

    standing = "" if compiled.standing is None else str(compiled.standing)
    artefact = source_key(normalise(kernel), compiled.opts, place.device.target, tool_version())
    return FoundKernel(kernel.name, calls, compiled.schedule, compiled.origin, standing, *work, artefact, compiled.executable, kernel)


def _require(kernels: Sequence[Kernel], place: BuildPlace) -> None:
    """Raise CacheMiss that lists every kernel without an exact answer."""
    from ...plan import resolve

    missing = []
    for kernel in kernels:
        try:
            resolve(kernel, place.device, place.threads, place.cache, exact_only=True, store=place.store)
        except CacheMiss:
            shape = ", ".join(f"{b.name}{list(b.shape)}" for b in kernel.buffers)
            missing.append(f"{kernel.name} ({shape})")
    if missing:
        raise CacheMiss(
            f"{len(missing)} of {len(kernels)} kernels were not tuned for {place.device.name} with {place.threads} threads: "
            f'{"; ".join(missing)}. Tune them with jit(tune="tune"), or use tune="use"'
        )
