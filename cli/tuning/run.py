"""`tune run`: search for a kernel's best schedule, show it being found, and say how to get it again."""

from __future__ import annotations

import json
import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...cache.keys import allowed, for_text, words
from ...cache.objective_types import ENERGIES, FRONTS, TIME, objective
from ...cache.rows import POLICY
from ...ir.dtypes import dtype
from ...ir.dtypes import dtype as dtype_of
from ...ir.errors import MeasureError, UsageError
from ...ir.normal_form import normalise
from ...ir.units import counted
from ...measure.roofline import roofline, unit
from ...opts import parse
from ...opts.opt import short
from ...search.budget import Budget
from ...search.interrupts import watched
from ...search.result import energy_text, joules, told_apart, value_text
from ...targets import command_prefix
from ..functions.tracing import is_tensor_function, refuse_source
from ..terminal.live import display, outcomes, rates
from ..terminal.output import with_code, write
from ..terminal.sanitised import wrapped
from ..terminal.style import MOST_TEXT, OUTCOMES, bytes_text, console, duration, flops, gain, opts_text, shape_text, soft_wrapped, table

if TYPE_CHECKING:
    from rich.console import Console

    from ...measure.rival.versus import Rivalry, Versus
    from ...search import Result
    from ..terminal.style import Listing


def only_time(args: Namespace) -> None:
    """Raise UsageError where --objective asks for something else, or --policy for another way to measure."""
    if objective(args.objective) != TIME:
        said = "--objective is for one kernel of one shape on this machine"
        raise UsageError(f"{said}; several shapes, functions of tensors, and fleets are tuned for the time")
    if args.policy:
        raise UsageError("--policy is for one kernel of one shape on this machine")


def opts_words(result: Result) -> list[str]:
    """The schedule itself, where `tune show` would look up another: that of the time."""
    return [] if result.objective == TIME else ["--opts", short(result.opts)]


def objective_rows(result: Result) -> Iterator[tuple[str, str]]:
    """Headings and texts: the energy of a call with its doubt, the scratch memory, and how the start schedule compares. The time's are elsewhere."""
    if result.energy:
        yield "energy", energy_text(result.energy)
    if result.scratch is not None and "scratch" in result.objective:
        yield "scratch", f"{bytes_text(result.scratch) if result.scratch else 'none'} beside the arguments"
    if result.value is not None:
        yield result.objective, value_text(result.objective, result.value)
    if result.start_value is not None:
        yield f"start's {'energy' if result.objective in ENERGIES else result.objective}", start_value(result)


def start_value(result: Result) -> str:
    """How the answer compares with the start schedule in what was made small."""
    assert result.start_value is not None
    energy = result.objective in ENERGIES
    if result.value is not None:
        said = value_text(result.objective, result.start_value)
    else:
        said = joules(result.start_value) if energy else bytes_text(int(result.start_value)) if result.start_value else "none"
    if result.opts == result.start_opts:
        return f"{said}; it is the answer: nothing was shown to beat it"
    if energy and result.gain:
        return f"{said}; the best takes {result.gain:.2f}x less, side by side"
    return said


def about_time(result: Result) -> bool:
    """Whether `gain` says how many times faster the answer is."""
    return result.objective == TIME or (result.objective in FRONTS and result.objective.startswith(TIME))


def front(result: Result) -> Listing:
    """The front as a table, the fastest first."""
    names = result.objective.split(",")
    energy = any(n in ENERGIES for n in names)
    headings = [">time", *([">energy"] if energy else []), ">scratch", "checked?1", "opts?2"]
    out = table(f"no schedule is better in both {names[0]} and {names[1]}", *headings)
    for m in result.front:
        used = [joules(m["joules"]) if m["joules"] is not None else "-"] if energy else []
        scratch = "-" if m["scratch"] is None else bytes_text(m["scratch"]) if m["scratch"] else "none"
        out.add_row(duration(m["t_min"]), *used, scratch, "twice" if m["confirmed"] else "once", opts_text(parse(m["opts"])))
    return out


AGREE = 1.05
"""How far the ratio of two single times may be from that of paired rounds before the summary says why."""


def run(args: Namespace) -> int:
    """Tune (or find in the cache) and print the summary; the exit code says what came of it."""
    return watched(lambda: _run(args))


def not_allowed(args: Namespace, why: str, but: str = "") -> None:
    """Raise UsageError where --allow, or --numerics, asks for something beside `but`."""
    if asked := [a for a in args.allow or () if a != but]:
        raise UsageError(f"{' '.join(words(asked))} {why}")


def _special_run(args: Namespace) -> int | None:
    """The exit code of a run that is not about one kernel of one shape: a manifest, several sizes, a function of tensors; None for one that is."""
    if args.until is not None and args.fleet:
        raise UsageError("--until is for searches on this machine; give a fleet a --budget")
    if args.recorded:
        not_allowed(args, "cannot be used with --recorded, which tunes what ran as it ran")
        from .recorded import run as run_recorded

        return run_recorded(args)
    if args.dry_run or args.background:
        raise UsageError("--dry-run and --background are for --recorded")
    if args.manifest is not None:
        if args.objective:
            raise UsageError('the entries of a --manifest say their objective themselves: objective = "energy"')
        not_allowed(args, 'cannot be used with --manifest, whose entries say their numerics themselves: numerics = "fixed"')
        if args.against or args.policy:
            raise UsageError(f"--{'against' if args.against else 'policy'} is for one --kernel")
        from .tune_manifest import run as run_manifest

        return run_manifest(args)
    if args.fleet:
        from ..fleet.tune_on_fleet import tune_kernel as run_on_fleet

        only_time(args)
        return run_on_fleet(args, begin(args), summary)
    if args.slots:
        raise UsageError("--slots says how many devices of a --fleet time one kernel")
    if args.trust:
        raise UsageError("--trust is for the files of a --manifest; the file that --kernel names is run anyway")
    if args.target:
        raise UsageError("--target picks targets of a --manifest; what --kernel is tuned for is the --device")
    from . import shapes

    if shapes.shapes_of(args):
        only_time(args)
        return shapes.run(args)
    if is_tensor_function(args.kernel, args.shape):
        if args.until is not None:
            raise UsageError(
                "--until is for kernels and manifests; a function's kernels share a --budget, which goes where it is worth most"
            )
        from ..functions.tune_function import run as run_function

        only_time(args)
        not_allowed(args, "is for one kernel, not for a function of tensors", "fixed")
        return run_function(args)
    return None


def _run(args: Namespace) -> int:
    other = _special_run(args)
    if other is not None:
        return other
    refuse_source(args)
    args.device = args.device or "cpu"
    args.objective = objective(args.objective)
    from ...devices import get as get_device
    from ...named_kernels import get, is_path, parse_shape, split_name, user_file
    from ...search import tune
    from ...search.strategy import check

    shape = parse_shape(args.shape) if args.shape else None
    how = rivalry(args)
    budget = Budget.make(args.budget, args.trials) if args.until is None else Budget.until(args.until, args.budget, args.trials)
    if is_path(args.kernel):
        user_file.check_file(split_name(args.kernel)[0])
        dtype_of(args.dtype or "float32")
    else:
        get(args.kernel).dtype(args.dtype)
    check(args.strategy)
    device = get_device(args.device)
    if args.mode != "require":
        device.check()
    out = console(sys.stderr if args.json == "-" else None)
    began = time.monotonic()
    shape_shown = shape_text(shape or {} if is_path(args.kernel) else dict(get(args.kernel).complete(shape)))
    title = " ".join(filter(None, (args.kernel, shape_shown, args.dtype, "on", args.device)))
    with display(title, budget.seconds, budget.trials, args.quiet, out, verbose=args.verbose) as progress:
        warn_if_busy(args)
        result = tune(
            args.kernel,
            shape=shape,
            dtype=args.dtype,
            device=args.device,
            budget=args.budget if args.until is None else budget,
            trials=args.trials if args.until is None else None,
            threads=args.threads,
            strategy=args.strategy,
            start=begin(args),
            random_seed=args.random_seed or 0,
            cache=args.cache,
            mode=args.mode,
            retune=args.retune,
            study=args.study,
            allow=args.allow or (),
            objective=args.objective,
            policy=args.policy,
            progress=progress,
            interrupt="return",
            since=began,
        )
    found = result.found and result.exit_code == 0
    lossy = "DOWNCONVERT" in allowed(args.allow or ())
    rival = against(result, how) if how and found else None
    share = peak_share(result, args.device, lossy) if found else None
    summary(out, args, result, comparison_rows(share, progress.clocks, rival))
    if args.json:
        write(args.json, json.dumps(with_code(result.to_json()) | facts(share, progress.clocks, rival), indent=1) + "\n")
    return result.exit_code


def warn_if_busy(args: Namespace) -> None:
    """Say that other programs are running, before anything is measured beside them."""
    from ...measure.timing import BUSY, used_by_others

    if args.mode == "require":
        return
    used = used_by_others()
    if used is not None and used > BUSY:
        said = f"other programs use {used:.1f} cores of this machine: times will be longer than they need be"
        print(wrapped(f"note: {said}, and differ from call to call"), file=sys.stderr)


def begin(args: Namespace) -> str:
    """What the search begins with, in the words of `tune`."""
    return str(args.start or "auto")


@dataclass(frozen=True, slots=True)
class SummaryWords:
    """What a summary calls things: the start schedule, the answer's options, the candidates of so many (`{}`); and the command that shows
    the answer."""

    look: Sequence[str]
    start: str = "start"
    opts: str = "opts"
    candidates: str = ""


def summary(
    out: Console, args: Namespace, result: Result, beside: Mapping[str, str] = MappingProxyType({}), words: SummaryWords | None = None
) -> None:
    """What was found, in a few lines; the last one reproduces it. `beside`: more lines, by their headings. `words`: those for a kernel, unless
    others are given."""
    from rich.table import Table
    from rich.text import Text

    words = words or _kernel_words(args, result)
    threads = f"{result.threads} thread{'s' * (result.threads != 1)}"
    dtype = result.dtype if words.start == "start" else ""
    what = " ".join(filter(None, (result.kernel, shape_text(result.shape), dtype, "on", result.device + ",", threads)))
    what += for_text(result.objective)
    out.print(Text.assemble((what, "bold"), ": ", (state(result), "green" if result.found else "bold red")), soft_wrap=soft_wrapped(out))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=10)
    grid.add_column(overflow="fold")
    if result.t_min is not None:
        grid.add_row("best", Text(rates(result), style="bold"))
        median = f", median {duration(result.t_med)} of {result.n} runs" if result.t_med else ""
        grid.add_row("timed", f"min {duration(result.t_min)}{median}")
        if result.plain_s and words.start == "start":
            grid.add_row("as written", f"{duration(result.plain_s)}; the best is {gain(result.plain_s, result.t_min)} as fast")
        if result.start_s:
            compared = f"; {against_start(result)}" if about_time(result) else ""
            grid.add_row(words.start, duration(result.start_s) + compared)
        sure = told_apart({"ties": result.ties, "places": result.places, POLICY: result.policy})
        for heading, text in (*objective_rows(result), *beside.items(), *sure):
            grid.add_row(heading, Text(text))
        grid.add_row(words.opts, opts_text(result.opts))
    if result.counts:
        many = sum(result.counts.values())
        tried = words.candidates.format(many) if words.candidates else counted(many, "candidate")
        after = f", after {result.earlier} in earlier searches" if result.earlier else ""
        grid.add_row("search", f"{tried} in {result.seconds:.1f} s with {result.strategy}{after}: {outcomes(result.counts)}")
    for outcome, text in result.failures.items():
        grid.add_row(f"first {outcome}", Text(text[:MOST_TEXT], style=OUTCOMES.get(outcome, "")))
    if result.message:
        grid.add_row("note", Text(result.message))
    out.print(grid)
    if result.front:
        out.print(front(result))
    where = ["--cache", args.cache] if args.cache else []
    if result.found:
        out.print(Text.assemble(("look at it  ", "dim"), shlex.join([*words.look, *where])), soft_wrap=True)
    out.print(Text.assemble(("reproduce   ", "dim"), " ".join(filter(None, (result.reproduce, shlex.join(where))))), soft_wrap=True)


def _kernel_words(args: Namespace, result: Result) -> SummaryWords:
    allow = words(args.allow or ())
    return SummaryWords([*command_prefix(result.device), *show_words(args.kernel, result), *allow, *opts_words(result)])


def against_start(result: Result) -> str:
    """How the answer compares with the start schedule."""
    assert result.start_s and result.t_min
    if result.opts == result.start_opts:
        return "it is the answer: nothing was shown to beat it"
    if not result.gain:
        return f"the best is {gain(result.start_s, result.t_min)} as fast, by single times"
    alone = result.start_s / result.t_min
    said = f"the best is {result.gain:.2f}x as fast, side by side"
    # single times are of different moments: the machine was busier at one of them
    return said if 1 / AGREE < alone / result.gain < AGREE else f"{said} (which counts; the times alone are of different moments)"


def state(result: Result) -> str:
    """The outcome of the whole run in a few words."""
    if result.exit_code == 130:
        return "interrupted; the best so far is saved" if result.found else "interrupted before anything valid was found"
    if result.exit_code == 6:
        return "nothing was measured in that time"
    if not result.found:
        return "nothing valid found"
    if result.origin == "cached":
        said = "cached, pinned by hand" if result.pinned else "cached"
        return said if result.standing in ("", "verified") else f"{said}, {result.standing} here"
    if not result.confirmed:
        return "tuned; its second check is still to be made"
    return "tuned and verified" if result.verified else "tuned"


def show_words(kernel: str, result: Result) -> list[str]:
    """The command that shows the schedule that was found."""
    words = ["tune", "show", "--kernel", kernel]
    words += ["--shape", shape_text(result.shape)] if result.shape else []
    words += ["--dtype", result.dtype] if result.dtype else []
    return [*words, "--device", result.device, "--threads", str(result.threads)]


# rivals -----------------------------------------------------------------------------------------------------
# What `tune run` compares a result with: the peak of the GPU's arithmetic units and its clocks, and a library's own kernel.


@dataclass(frozen=True)
class PeakShare:
    """`flops_s`: operations a second that the `unit` of the GPU does at most, on the kernel's types in its
    proportions; `percent`: what the fastest call reached of that, in %."""

    unit: str
    flops_s: float
    percent: float

    @property
    def text(self) -> str:
        """`62 % of 989 TFLOP/s by tensor cores`."""
        return f"{self.percent:.0f} % of {flops(self.flops_s * 1e-9)} by {self.unit}"


def rivalry(args: Namespace) -> Rivalry | None:
    """How to compare with the library of --against, checked before anything is measured; None without the option.
    Raises UsageError with the fix where no comparison is possible."""
    if not args.against:
        return None
    from ...devices import get
    from ...measure.rival.versus import LIBRARIES, Rivalry, check
    from ...named_kernels import get as kernel
    from ...named_kernels import is_path

    library, _, python = args.against.partition(":")
    if library not in LIBRARIES or (python and library == "numpy"):
        raise UsageError(f"--against takes torch, torch:PYTHON for another interpreter, or numpy, not {args.against[:40]!r}")
    if is_path(args.kernel) or ":" in args.kernel:
        raise UsageError(f"--against is for kernels of `tune kernels` as they are: {LIBRARIES[library]} knows no others")
    device = get(args.device)
    device.check()
    name = dtype(args.dtype).name if args.dtype else kernel(args.kernel).dtypes[0]
    check(args.kernel, name, device, python or sys.executable, library)
    lossy = "DOWNCONVERT" in allowed(args.allow or ())
    return Rivalry(python or sys.executable, spec=args.device, tf32=lossy, library=library)


def against(result: Result, how: Rivalry) -> Versus:
    """The found schedule and a library's kernel in turns (with TF32 where that is allowed). What fails is told by the
    answer: the search's result stands."""
    from ...devices import get
    from ...measure.rival.versus import Versus, against_library

    device = get(how.spec)
    try:
        return against_library(result.kernel, result.shape, result.dtype, result.opts, device, result.threads, how)
    except MeasureError as e:
        return Versus(why=str(e), library=how.library)


def peak_share(result: Result, spec: str, lossy: bool = False) -> PeakShare | None:
    """How near a result comes to the peak of a GPU's units; None on processors, without limits, and for kernels in
    files."""
    from ...devices import get
    from ...named_kernels import is_path, make

    if is_path(result.kernel) or not result.gflops:
        return None
    device = get(spec)
    limits = device.limits()
    if device.target.kind != "gpu" or limits is None:
        return None
    kernel = normalise(make(result.kernel, dict(result.shape), result.dtype))
    most = roofline(kernel, limits, result.threads, target=device.target, lossy=lossy).peak
    return PeakShare(unit(kernel, device.target, lossy), most, 100e9 * result.gflops / most)


def comparison_rows(share: PeakShare | None, clocks: Mapping[str, Any], rival: Versus | None) -> dict[str, str]:
    """The lines of the summary, by heading; only those that say something."""
    from ..report.html import clocks as text_of

    rows = {
        "peak": share.text if share else "",
        "clocks": text_of({"clocks": dict(clocks)}),
        "against": rival.text if rival else "",
    }
    return {heading: text for heading, text in rows.items() if text}


def facts(share: PeakShare | None, clocks: Mapping[str, Any], rival: Versus | None) -> dict[str, Any]:
    """The same as plain data, for --json; nothing where nothing is known."""
    out: dict[str, Any] = {"peak": asdict(share)} if share else {}
    out |= {"clocks": dict(clocks)} if clocks else {}
    return out | ({"against": {rival.library: rival.to_json()}} if rival else {})
