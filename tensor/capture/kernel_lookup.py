"""The kernels of a captured function: each distinct one looked up in the cache once, and built, the heaviest first."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...cache import CacheWarning
from ...ir.errors import CacheMiss, OptError
from ...search.parallel_builds import BuildHelpers, BuildPlace
from ..fusion.call_list import KernelCall
from ..partition.store_rules import Rule
from ..running.compiled_kernels import ProgramKey, forget, keep, key_of_program, known
from ..running.observers import timed
from .jit_options import JitOptions

if TYPE_CHECKING:
    from ...cache.keys import Key
    from ...devices import Executable
    from ...ir.kernel import Kernel
    from ...opts import Opts
    from ...plan import CompiledKernel


CHECKING = "check"
"""The origin of kernels that only say whether indices lie inside: they read each once, and are not tuned."""
CHOSEN = "program"
"""The origin of kernels that run, in this program, another schedule than the cache's answer: that one did not help the whole."""


@dataclass
class FoundKernel:
    """A distinct kernel of a captured function. `calls`: how many there are of it; `flops` and `nbytes`: of one call;
    `artefact`: where the store keeps its source's description; `kernel`: None where nobody had to make it; then
    there is no `text`, the schedule as rows have it, and no `key` either."""

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
    text: str = ""
    key: Key | None = None

    @property
    def exact(self) -> bool:
        """Whether it runs with a schedule that was measured for it, or needs none."""
        return self.origin in ("exact", CHECKING, CHOSEN)


def weight(kernel: Kernel) -> tuple[int, int]:
    """(operations, bytes) of a call."""
    from ...ir.cost import cost

    if kernel.symbols:
        return 0, 0
    work = cost(kernel)
    return work.flops + work.poly_flops, work.bytes


def looked_up(
    calls: Sequence[tuple[KernelCall, int]], device: str, place: BuildPlace, options: JitOptions, helpers: BuildHelpers, program: str
) -> tuple[dict[int, FoundKernel], list[FoundKernel]]:
    """(by the position of a call its kernel, the distinct kernels, heaviest first), of calls and how often each is made. `program`: the digest of
    the graph, for which the cache may have choices. Raises CacheMiss with tune="require"."""
    keys: dict[int, ProgramKey] = {}
    distinct: dict[ProgramKey, Kernel] = {}
    tuned: set[ProgramKey] = set()
    counts: Counter[ProgramKey] = Counter()
    choices = _Choices(program, device, place)
    for i, (c, times) in enumerate(calls):
        keys[i] = choices.key(c.kernel)
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

    helpers.build([distinct[k] for k in missing.values() if k not in choices.opts], make)
    found: dict[ProgramKey, FoundKernel] = {}
    for k in order:
        compiled = made.get(k) or known(k) or keep(k, _built(distinct[k], place, options.checks, choices.opts.get(k)))
        found[k] = described(distinct[k], compiled, weights[k], counts[k], place)
        if k not in tuned:
            found[k].origin = CHECKING
    return {i: found[k] for i, k in keys.items()}, [found[k] for k in order]


def looked_up_again(k: FoundKernel, device: str, place: BuildPlace, program: str = "") -> FoundKernel:
    """The kernel as the cache has it now, for a program or for any."""
    assert k.kernel is not None
    choices = _Choices(program, device, place)
    key = choices.key(k.kernel)
    forget(key)
    return described(k.kernel, keep(key, _built(k.kernel, place, opts=choices.opts.get(key))), (k.flops, k.nbytes), k.calls, place)


class _Choices:
    """What the cache says of a program's kernels. `opts`: the schedules of those that run another one than the cache's answer."""

    def __init__(self, program: str, device: str, place: BuildPlace) -> None:
        self._program, self._device, self._place = program, device, place
        self._asks = bool(program) and not place.cache.is_empty()
        self.opts: dict[ProgramKey, Opts] = {}

    def key(self, kernel: Kernel) -> ProgramKey:
        """Equal for kernels that one executable runs."""
        place = self._place
        where = place.where or str(place.cache.location)
        chosen = self._other(kernel) if self._asks else None
        if chosen is None:
            return key_of_program(kernel, self._device, place.threads, where)
        text, opts = chosen
        key = key_of_program(kernel, self._device, place.threads, f"{where}\0{text}")
        self.opts[key] = opts
        return key

    def _other(self, kernel: Kernel) -> tuple[str, Opts] | None:
        """The schedule that was chosen in the place of the cache's answer, as rows have it and in the kernel's names."""
        from ...cache.program_choices import choice
        from ...ir.normal_form import normalise
        from ...ir.rewriter import without_aliases
        from ...plan import canonical_of, key_of
        from ...plan.identity import opts_from
        from ...plan.resolve import plan_of_opts

        place, normal = self._place, normalise(without_aliases(kernel))
        found = choice(place.cache, self._program, key_of(normal, place.device, place.threads))
        if found is None or found.kept:
            return None
        try:
            opts = opts_from(found.opts, canonical_of(normal))
            plan_of_opts(normal, opts, place.device, place.threads)
        except OptError as e:
            warnings.warn(
                f"a program's choice for {kernel.name} is ignored, its options do not apply any more: {e}; tune the program again",
                CacheWarning,
                stacklevel=2,
            )
            return None
        return found.opts, opts


def _built(kernel: Kernel, place: BuildPlace, check: bool = False, opts: Opts | None = None) -> CompiledKernel:
    from ...plan import best

    how: dict[str, Any] = {"check": check} if opts is None else {"opts": [o.json for o in opts]}
    with timed("build", kernel.name, place.device.spec or place.device.name, kernel, place.threads):
        return best(kernel, device=place.device, threads=place.threads, cache=place.cache, store=place.store, start="quick", **how)


def described(kernel: Kernel, compiled: CompiledKernel, work: tuple[int, int], calls: int, place: BuildPlace) -> FoundKernel:
    """What a report says of a kernel, and what a warm start needs to have it again."""
    from ...cache import tool_version
    from ...ir.normal_form import normalise
    from ...plan.identity import opts_text, source_key

    standing = "" if compiled.standing is None else str(compiled.standing)
    normal = normalise(kernel)
    artefact = source_key(normal, compiled.opts, place.device.target, tool_version())
    origin = CHOSEN if compiled.origin == "given" else compiled.origin
    return FoundKernel(
        kernel.name,
        calls,
        compiled.schedule,
        origin,
        standing,
        *work,
        artefact,
        compiled.executable,
        kernel,
        opts_text(normal, compiled.opts),
        compiled.plan.key,
    )


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
