"""From a schedule whose result is wrong to what broke it: the options, emission, one pass, or what comes after the
Program.

The Program is run in the interpreter after emission and after each pass, twice: as the integer twin, whose bits must
be the kernel's whatever was reordered (so a wrong index cannot hide in rounding), and in floating point, within the
verifier's bound of the float64 reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ...ir.errors import OptError, TilewrightError, VerifyError
from ...opts.nests import FoldItem
from .. import inputs
from .verify import reference_kernel, unwritten

if TYPE_CHECKING:
    from ...ir.kernel import Kernel
    from ...opts import Opt, Scheduled
    from ...program.program import Program
    from ...targets import Target

    Opts = tuple[Opt, ...]


SCHEDULE, EMIT = "schedule", "emit"
_BEFORE_BARRIERS = "barriers"
"""Until this pass has run, threads of a group have no barriers, so that they may disturb one another."""
_MARK = 77
"""What outputs hold before the twin runs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """`stages`: what was checked in order, with '' where it is right and else what is wrong; it ends at the first
    that is wrong. `opts`: the shortest part of the options, in their order, with which that stage is wrong too (all
    of them where nothing is)."""

    stages: tuple[tuple[str, str], ...]
    opts: tuple[Opt, ...]

    @property
    def culprit(self) -> str:
        """The stage that is wrong: 'schedule', 'emit', or a pass's name; '' where every Program is right."""
        return self.stages[-1][0] if self.stages and self.stages[-1][1] else ""


def bisect(
    kernel: Kernel,
    opts: Sequence[Opt],
    target: Target,
    vars: Mapping[str, int] | None = None,
    seed: int = 0,
) -> Finding:
    """Find the first stage at which the schedule `opts` of `kernel` (in normal form) for `target` is wrong. `vars`:
    values of the symbols; `seed`: of the inputs. The interpreter takes about a microsecond an operation: give a small
    shape.

    Raises OptError where the options are not legal."""
    inputs.require_operands(kernel, dict(vars or {}), measured=False)
    check = _Checker(kernel, target, dict(vars or {}), seed)
    stages = check.stages(tuple(opts))
    name, why = stages[-1]
    if not why:
        return Finding(stages, tuple(opts))

    def fails(some: Opts) -> bool:
        try:
            return check.stages(some)[-1][0] == name and bool(check.stages(some)[-1][1])
        except OptError:
            return False  # these options alone are not legal, which says nothing

    return Finding(stages, shortest(tuple(opts), fails))


def shortest(items: Opts, fails: Callable[[Opts], bool]) -> Opts:
    """A part of `items`, in their order, that still `fails` and none of whose items can be left out: delta debugging
    (A. Zeller and R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28, 2002). `items`
    themselves fail."""
    if fails(()):
        return ()
    pieces = 2
    while len(items) > 1:
        cuts = [len(items) * i // pieces for i in range(pieces + 1)]
        parts = [items[a:b] for a, b in pairwise(cuts)]
        rests = [items[:a] + items[b:] for a, b in pairwise(cuts)]
        found = next((p for p in parts if len(p) < len(items) and fails(p)), None)
        if found is not None:
            items, pieces = found, 2
            continue
        found = next((r for r in rests if fails(r)), None)
        if found is not None:
            items, pieces = found, max(2, pieces - 1)
        elif pieces == len(items):
            break
        else:
            pieces = min(len(items), 2 * pieces)
    return items


class _Wrong(Exception):
    """Ends lowering at the stage that is wrong."""


_Arrays = dict[str, Any]
_Reference = tuple[_Arrays, _Arrays, _Arrays]
"""Inputs, expected outputs, and where nothing may be written, by name."""


@dataclass
class _Checker:
    """Checks schedules of one kernel; references are made once."""

    kernel: Kernel
    target: Target
    vars: dict[str, int]
    seed: int
    _known: dict[Opts, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    _twins: dict[tuple[tuple[str, int], ...], _Reference] = field(default_factory=dict)
    _expected: tuple[dict[str, Any], dict[str, Any]] | None = None
    _reference: Kernel | None = None

    def stages(self, opts: Opts) -> tuple[tuple[str, str], ...]:
        """(stage, '' or what is wrong), up to the first that is wrong. Raises OptError."""
        found = self._known.get(opts)
        if found is None:
            found = self._known[opts] = self._stages(opts)
        return found

    def _stages(self, opts: Opts) -> tuple[tuple[str, str], ...]:
        from ...lower import passes
        from ...opts import apply

        try:
            scheduled = apply(self.kernel, opts, self.target)
        except OptError:
            raise
        except Exception as e:
            return ((SCHEDULE, _raised("applying the options", e)),)
        reference = reference_kernel(self.kernel, self.target, "DOWNCONVERT" in scheduled.effects)
        if reference is not self._reference:
            self._reference, self._expected = reference, None
        names = [EMIT, *(p.name for p in passes.of(self.target))]
        wrong = self._lowered(scheduled, names, len(names), twin=True, cuts=_fold_strides(scheduled))
        # the twin is exact, and floats only have to be looked at up to where it fails
        other = self._lowered(scheduled, names, len(names) if wrong is None else wrong[0], twin=False)
        at, why = min(filter(None, (wrong, other)), default=(len(names), ""))
        right = tuple((n, "") for n in names[:at])
        return (*right, (names[at], why)) if why else right

    def _lowered(
        self,
        scheduled: Scheduled,
        names: list[str],
        stop: int,
        twin: bool,
        cuts: Mapping[str, int] | None = None,
    ) -> tuple[int, str] | None:
        """(number of the stage, what is wrong) of the first of the stages before `stop` that is wrong."""
        from ...lower import lower
        from ...program.verify import verify

        at = 0

        def observe(name: str, program: Program) -> None:
            nonlocal at
            if at < stop:
                verify(program, f"after {name}")
                synced = _BEFORE_BARRIERS not in names[at + 1 :]
                why = self._twin(program, cuts or {}, synced) if twin else self._floats(program, synced)
                if why:
                    raise _Wrong(why)
            at += 1

        try:
            lower(scheduled, expand=not twin, observe=observe)
        except _Wrong as e:
            return at, str(e)
        except OptError:
            raise
        except Exception as e:
            if at < stop:
                return at, _raised("emission" if at == 0 else f"the pass {names[at]}", e)
            if stop == len(names):
                raise  # every pass has run
        return None

    def _twin(self, program: Program, cuts: Mapping[str, int], synced: bool) -> str:
        import numpy as np

        given, want, free = self._twin_reference(cuts)
        shapes = {b.name: inputs.shape(b, self.kernel, self.vars) for b in self.kernel.outputs}
        types = {b.name: np.uint32 if b.dtype.is_float else b.dtype.np for b in self.kernel.outputs}
        outputs = {name: np.full(shape, _MARK, types[name]) for name, shape in shapes.items()}
        if said := self._run(program, {**given, **outputs}, synced, twin=True):
            return said
        for name, got in outputs.items():
            expect = want[name].astype(got.dtype)
            if name in free:
                expect = np.where(free[name].reshape(got.shape), got.dtype.type(_MARK), expect)
            wrong = np.argwhere(got != expect)
            if len(wrong):
                where = f"{len(wrong)} of {got.size} elements, the first at {wrong[0].tolist()}"
                return f"integer twin: {name} differs at {where}"
        return ""

    def _twin_reference(self, cuts: Mapping[str, int]) -> _Reference:
        from ...ir.evaluation import evaluate, twin

        key = tuple(sorted(cuts.items()))
        if key not in self._twins:
            given = inputs.generate(self.kernel, self.vars, self.seed)
            for i, b in enumerate(self.kernel.inputs):
                if b.dtype.is_float:
                    given[b.name] = twin.draw(given[b.name].shape, self.seed + i)
            want = evaluate(self.kernel, given, self.vars, mode="twin", tile=dict(cuts))
            self._twins[key] = given, want, dict(unwritten(self.kernel, given, self.vars))
        return self._twins[key]

    def _floats(self, program: Program, synced: bool) -> str:
        import numpy as np

        from .verify import check, expectations

        if self._expected is None:
            given = inputs.generate(self.kernel, self.vars, self.seed)
            self._expected = given, dict(expectations(self._reference or self.kernel, given, self.vars))
        given, expected = self._expected
        outputs = {b.name: np.empty(inputs.shape(b, self.kernel, self.vars), b.dtype.np) for b in self.kernel.outputs}
        for made in outputs.values():
            made.reshape(-1).view(np.uint8).fill(0xFF)
        if said := self._run(program, {**given, **outputs}, synced, twin=False):
            return said
        for name, expect in expected.items():
            verdict = check(expect, outputs[name].ctypes.data)
            if outputs[name].size and not verdict.ok:
                return f"against the float64 reference: {verdict.detail}"
        return ""

    def _run(self, program: Program, arrays: dict[str, Any], synced: bool, twin: bool) -> str:
        from ... import interp

        order = [self.vars[s.arg.name] for s in program.symbols]
        try:
            interp.run(program, arrays, order, twin=twin, warp=self.target.warp, races=synced)
        except VerifyError as e:
            return f"the interpreter: {e}"
        except Exception as e:  # a Program that makes no sense: a value before it is made, an unknown operation
            return _raised("the interpreter", e)
        return ""


def _fold_strides(s: Scheduled) -> dict[str, int]:
    """How folds are cut: their merges divide, and the twin's division is not one that sums can be pulled through."""
    parts = {p.fold.name: p.fold.stride for p in s.plans.values() if p.fold}
    return {i.fold.name: parts[i.fold.axis.arg.name] for i in s.items if isinstance(i, FoldItem) and i.fold.axis.arg.name in parts}


def _raised(what: str, error: Exception) -> str:
    import traceback

    at = traceback.extract_tb(error.__traceback__)[-1]
    place = "" if isinstance(error, TilewrightError) else f" ({'/'.join(at.filename.rsplit('/', 2)[-2:])}:{at.lineno})"
    return f"{what} raised {type(error).__name__}: {error}{place}"
