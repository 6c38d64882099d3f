"""`best()`: a kernel, compiled with the best schedule that is known."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

from ..cache.keys import DEFAULT_POLICY, Numerics, allowed, with_numerics
from ..cache.keys import policy as policy_of
from ..cache.objective_types import TIME
from ..cache.objective_types import objective as named_objective
from ..devices.cpu.executable import ChosenExecutable, CpuExecutable
from ..devices.once import undivided
from ..ir import argument_checks
from ..ir.errors import DeviceError, OptError, UsageError
from ..ir.index import add, bounds
from ..ir.kernel import Kernel
from ..ir.node import Node, const
from ..ir.normal_form import normalise
from ..ir.rewriter import resized, without_aliases
from ..log import logger
from ..opts import parse
from . import identity, usage
from .artefacts import Artefacts, build, render
from .compiled_kernel import CompiledKernel, Copying, SizePart
from .first_use_check import FirstUse, passed, wanted
from .resolve import UNPIN, Choice, Plan, halved, measured, plan_of_opts, resolve
from .size_trees import parts_of, symbolic_tree

if TYPE_CHECKING:
    from ..cache import Cache
    from ..devices import Device, Executable, Memory
    from ..ir.buffer import Extent
    from ..ir.dtypes import DTypeLike
    from ..opts import Opt
    from .artefacts import Built, Rendered

log = logger("plan")

MOST_CHARACTERS = 3_000_000
"""Characters of source. LLVM takes about 1.7 s for a million on a core of a Zen 5, so this is five seconds; a schedule that was measured
may have more."""


def with_fewer_copies(kernel: Kernel, code: Rendered, device: Device, store: Artefacts) -> Rendered:
    """The source of a start schedule of a kernel in normal form, with fewer copies as long as it has more than `MOST_CHARACTERS` characters and
    copies that can go."""
    while (much := len(code.source.text) / MOST_CHARACTERS) > 1:
        fewer = code.opts
        while much > 1 and (half := halved(kernel, fewer, device.target)) is not None:
            fewer, much = half, much / 2
        if fewer == code.opts:
            break
        log.debug("%s: %d characters are too many for a start schedule; it gets fewer copies", kernel.name, len(code.source.text))
        try:
            code = render(kernel, fewer, device, store)
        except OptError:
            break
    return code


def code_of(kernel: Kernel, plan: Plan, device: Device, store: Artefacts) -> tuple[Plan, Rendered]:
    """The source of a plan for `kernel`, whose outputs may be in place. A start schedule that turns out too long has fewer copies then."""
    code = render(normalise(kernel), plan.opts, device, store)
    if plan.origin == "start":
        code = with_fewer_copies(normalise(kernel), code, device, store)
        plan = replace(plan, opts=code.opts)
    return plan, code


def best(
    kernel: str | Kernel,
    shape: Mapping[str, Extent] | None = None,
    dtype: DTypeLike | None = None,
    device: str | Device = "cpu",
    threads: int | None = None,
    cache: str | os.PathLike[str] | Cache | None = None,
    exact_only: bool = False,
    *,
    store: Artefacts | None = None,
    start: Choice = "ranked",
    allow: Iterable[str] = (),
    numerics: Numerics = "free",
    opts: str | Sequence[Any] | None = None,
    objective: str | Sequence[str] = TIME,
    scratch_limit: int | None = None,
    check: bool | None = None,
) -> CompiledKernel:
    """The kernel compiled with the best schedule that is known, without a search: from the cache, else of a similar kernel in it, else the start schedule
    (`CompiledKernel.origin` tells). With `exact_only`, raises CacheMiss unless this very kernel was tuned for this device and thread count.

    `kernel`: a name (then with `shape` and `dtype`), `my.py:function`, or a Kernel. `threads`: default, all usable cores. `cache`: a path,
    a database URL or an open Cache; default as for the command line. `store`: where compiled code is kept between runs; default, the
    platform's cache folder. `start`: 'quick' chooses a start schedule among a few, in a few milliseconds, where 'ranked' has the model rank
    all that are known. `allow`: effects that are refused otherwise, as for `tune`: ["downconvert"] for what a search found that was
    allowed to lower precision. `numerics`: "fixed" gives the same bits under every schedule, number of threads, level of instructions and
    batch size (docs/numerics.md), and asks for what was tuned so. `opts`: this schedule and no other, in short form ("Um8 Un32 Pn") or as data; nothing is looked up then,
    nothing was measured, and `CompiledKernel.origin` is 'given'. Raises OptError where it cannot be read or does not apply. `objective`: "energy",
    "dynamic-energy" or "scratch" asks for what a search with that objective found, or for that end of a front; of two ("time,scratch") the
    fastest of the front is taken. `scratch_limit`: the fastest schedule that needs no more bytes beside its arguments, or UsageError where
    none is known. `check` (default: whether TILEWRIGHT_CHECK is 1): a schedule that nobody measured for this kernel is compared with the
    float64 reference before it answers (`plan.first_use_check`); one that is wrong is recorded so, with a FirstUseWarning, and the next answers.

    A kernel with symbolic sizes that was tuned for them has several schedules (`CompiledKernel.parts`), of which each call runs the one for
    its sizes. A kernel of a single shape that was not tuned, though others of its kind were for ranges of sizes, has the schedule that their
    tree of sizes gives it (origin 'tree'). A schedule
    that this machine cannot load, having no memory for its workspace for one, is left out with a warning, unless `exact_only`."""
    argument_checks.check_all("best", locals(), start=get_args(Choice), numerics=get_args(Numerics))
    from ..cache import Cache, open
    from ..devices import get

    allow = with_numerics(allow, numerics)
    policy = policy_of(allowed(allow))
    source = _source(kernel) if usage.wanted() and opts is None and policy == DEFAULT_POLICY else None
    kernel = identity.with_numerics(_kernel(kernel, shape, dtype), policy)
    with undivided():
        place = get(device)
        place.check()
    threads = int(threads or place.threads)
    place.check_threads(threads)
    opened = cache if isinstance(cache, Cache) else open(cache)
    if scratch_limit is not None and opts is not None:
        raise UsageError("scratch_limit is for what is looked up: not beside opts")
    aim = named_objective(objective)
    ask = _PlanRequest(
        place,
        threads,
        opened,
        store or Artefacts.default(),
        policy,
        start,
        allow,
        aim,
        scratch_limit,
        wanted(check),
        source,
    )
    if opts is None:
        numbers = {k: v for k, v in (shape or {}).items() if isinstance(v, int)}
        with undivided():
            return _looked_up(kernel, numbers, ask, exact_only)
    if exact_only:
        raise UsageError("opts gives the schedule and exact_only asks the cache for it: use one of them")
    plan = plan_of_opts(without_aliases(kernel), parse(opts), place, threads, policy)
    with undivided():
        built = build(render(normalise(kernel), plan.opts, place, ask.store), place, ask.store)
        return CompiledKernel(kernel, plan, built, _loaded(place, built, threads, place.memory()))


def _source(kernel: str | Kernel) -> str:
    """The file and function that a kernel is from; '' for others."""
    from ..named_kernels import is_path

    return os.path.abspath(kernel) if isinstance(kernel, str) and is_path(kernel) else ""


@dataclass(frozen=True)
class _PlanRequest:
    """What a program is asked for, but for its kernel."""

    place: Device
    threads: int
    cache: Cache
    store: Artefacts
    policy: str
    start: Choice
    allow: tuple[str, ...]
    objective: str = TIME
    scratch_limit: int | None = None
    check: bool = False
    used: str | None = None
    """None where runs are not recorded; else the `my.py:function` that the kernel is from, or ''."""


def _looked_up(kernel: Kernel, numbers: Mapping[str, int], ask: _PlanRequest, exact_only: bool) -> CompiledKernel:
    """The best of what the cache and the start schedules have that this machine can load."""
    place = ask.place
    memory = place.memory()  # a device that cannot be opened is not a schedule's fault
    failed: list[tuple[Opt, ...]] = []
    known = without_aliases(kernel)  # what was tuned: rows remember the source without outputs in place
    about: dict[str, Any] = {"shape": numbers or None, "policy": ask.policy, "store": ask.store, "start": ask.start}
    about |= {"objective": ask.objective, "scratch_limit": ask.scratch_limit}
    least: int | None = None
    while True:
        plan = resolve(known, place, ask.threads, ask.cache, exact_only, excluded=failed, **about)
        try:
            rendered = plan.rendered if known is kernel else None
            plan, code = (plan, rendered) if rendered is not None else code_of(kernel, plan, place, ask.store)
            needs = code.signature.working_memory(ask.threads)
            if ask.scratch_limit is not None and needs > ask.scratch_limit:
                least = needs if least is None else min(least, needs)
                if plan.opts in failed:
                    raise UsageError(_no_room(kernel, ask.scratch_limit, least))
                failed.append(plan.opts)
                continue
            built = build(code, place, ask.store)
            executable = _loaded(place, built, ask.threads, memory)
            if ask.check and not passed(FirstUse(kernel, plan, built, executable, place, ask.cache, ask.store)):
                failed.append(plan.opts)
                continue
            compiled = CompiledKernel(kernel, plan, built, executable)
            if ask.used is not None:
                used = usage.UsedKernel(known, ask.used, place.spec or place.name, ask.threads)
                compiled.counter = usage.recorder(ask.cache).counter([(used, 1)])
            compiled.checked = compiled.checked or ask.check
            return _with_tree(compiled, ask)
        except OptError:
            # what guesses a schedule asks whether it is legal, and only lowering knows whether it can be written
            if plan.origin != "start" or plan.opts in failed:
                raise
            log.debug("the start schedule %s of %s cannot be lowered", plan.opts, kernel.name)
            failed.append(plan.opts)
        except (DeviceError, MemoryError) as e:
            if exact_only or plan.opts in failed:
                raise
            if plan.row is not None and plan.row.pinned:
                said = f"the schedule that was pinned for {kernel.name} cannot be loaded here: {e or 'out of memory'}; {UNPIN}"
                raise DeviceError(said) from e
            failed.append(plan.opts)
            what = f"the {plan.origin} schedule of {kernel.name} cannot be loaded here: {e or 'out of memory'}"
            warnings.warn(f"{what}. The next one is used; tune again for one that fits", RuntimeWarning, stacklevel=3)


def _no_room(kernel: Kernel, limit: int, least: int) -> str:
    return (
        f"no schedule of {kernel.name} that is known needs at most {limit} bytes beside its arguments; the least is {least}. Search for one: "
        "tune run --objective scratch, or time,scratch"
    )


def _with_tree(compiled: CompiledKernel, ask: _PlanRequest) -> CompiledKernel:
    """The kernel, with the schedules that a tree has for parts of its symbols' ranges, where each was measured; on the processor."""
    whole, place = compiled.executable, ask.place
    kernel = normalise(compiled.kernel)
    found = symbolic_tree(compiled.kernel, compiled.plan.key, ask.cache) if compiled.kernel.symbols else None
    if found is None or not isinstance(whole, CpuExecutable):
        return compiled
    tree, row = found
    chosen: list[tuple[CpuExecutable, Node]] = []
    parts: list[SizePart] = []
    rest = const(1)
    for i, box, opts in parts_of(kernel, tree, row):
        part = resized(compiled.kernel, box)
        plan = measured(part, opts, place, ask.threads, ask.cache, ask.policy, ask.store)
        if plan is None:  # what nobody measured for this part is no better than the whole range's
            continue
        built = build(code_of(part, plan, place, ask.store)[1], place, ask.store)
        executable = _loaded(place, built, ask.threads, None)
        if not isinstance(executable, CpuExecutable) or executable.signature.symbols != whole.signature.symbols:
            continue
        chosen.append((executable, tree.chosen(i)))
        parts.append(SizePart(box, opts))
        rest = add(rest, tree.chosen(i), -1)
    if not chosen:
        return compiled
    if bounds(rest) != (0, 0):
        chosen.append((whole, rest))
    sized = CompiledKernel(compiled.kernel, compiled.plan, compiled.built, ChosenExecutable(chosen), tuple(parts))
    sized.checked = compiled.checked
    return sized


def _loaded(device: Device, built: Built, threads: int, memory: Memory | None) -> Executable:
    """A schedule that has the memory it needs. Raises DeviceError, MemoryError."""
    executable = device.load(built.obj, built.signature, threads)
    try:
        executable.reserve()
    except BaseException:
        executable.close()
        raise
    return executable if memory is None else Copying(executable, memory)


def _kernel(kernel: str | Kernel, shape: Mapping[str, Extent] | None, dtype: DTypeLike | None) -> Kernel:
    if isinstance(kernel, Kernel):
        if shape is not None or dtype is not None:
            raise UsageError("shape and dtype are part of a Kernel object: give them only with a kernel's name")
        return kernel
    from ..named_kernels import make

    return make(kernel, shape, dtype)
