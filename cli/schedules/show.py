"""`tune show`: one schedule as options, as a loop nest, and as source, for this machine or for one that is not here.

A source that was tuned is shown by the values of its parameters, and its text with them."""

from __future__ import annotations

import difflib
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ... import cache
from ...cache.keys import allowed, policy
from ...devices.base import SourceLike
from ...files.strict import canon
from ...ir.errors import DeviceError, UsageError
from ...ir.kernel import kernel_text
from ...ir.normal_form import applied, canonical, normalise
from ...opts import nest_lines, parse
from ...opts.schedule_text import schedule_text
from ...opts.syntax import SYNTAX
from ...targets import host
from ..cache.query import shape_of
from ..terminal.style import KINDS, console, duration, factor, legend, opts_text, soft_wrapped
from .opts_argument import ForTarget, chosen, target_of

if TYPE_CHECKING:
    from rich.text import Text

    from ...cache import Row
    from ...heuristics import CpuTerms
    from ...ir.kernel import Kernel
    from ...opts import Opt, Scheduled
    from ...program.program import Program
    from ...renderers import Source
    from ...targets import Target


LEXERS = {"opencl": "c"}
"""What languages are called where they are coloured."""


def run(args: Namespace) -> int:
    """Print the schedule that the arguments pick; `--source` prints the rendered text alone, `--stage` any stage of the way to it."""
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render
    from ..functions.tracing import kernel_of

    if show_source(args):
        return 0
    # schedules, cached ones too, are of the kernel in normal form (unit axes dropped, neighbours merged)
    written = kernel_of(args)
    kernel = normalise(written)
    place = target_of(args)
    target = place.target
    if args.diff:
        return difference(kernel, place, args)
    found = chosen("best" if args.opts is None else args.opts, kernel, place, args)
    opts, origin = found.opts, found.origin
    scheduled = apply(kernel, opts, target)
    if args.stage:
        from ..grammar.schedule_arguments import ONLY_CUDA, STAGES

        # `asm` of a GPU is its PTX
        every = [s for s in STAGES if s not in ONLY_CUDA or (s == "sass" and target.lang == "cuda")]
        wanted = every if "all" in args.stage else args.stage
        sys.stdout.write(stages_text(kernel, scheduled, target, wanted, optional="all" in args.stage, written=written))
        return 0
    source = render(lower(scheduled), target)
    if args.source:
        sys.stdout.write(source.text if source.text.endswith("\n") else source.text + "\n")
        return 0
    from rich.text import Text

    from ...heuristics.contraction_order import order_lines

    out = console()
    out.print(Text.assemble((kernel.name, "bold"), f" for {target.name}, {origin}"), soft_wrap=soft_wrapped(out))
    out.print(opts_text(opts), soft_wrap=soft_wrapped(out))
    out.print(legend(), style="dim")
    for line in order_lines(kernel, opts):
        out.print(Text(line), soft_wrap=soft_wrapped(out))
    out.print()
    out.print(nest_text(scheduled), soft_wrap=soft_wrapped(out))
    out.print()
    if out.is_terminal:
        from rich.syntax import Syntax

        out.print(Syntax(source.text, LEXERS.get(source.lang, source.lang), theme="ansi_dark", background_color="default", word_wrap=False))
    else:
        out.print(source.text, soft_wrap=True)
    return 0


def nest_text(scheduled: Scheduled) -> Text:
    """The loop nest, one line a loop, each in the colour of its kind."""
    from rich.text import Text

    out = Text()
    for line in nest_lines(scheduled):
        if out:
            out.append("\n")
        out.append("  " * line.depth)
        out.append(f"{line.label} {line.extent_text}".strip(), style=KINDS[line.kind])
        out.append(f"  {line.kind}", style="dim")
        if line.detail:
            out.append(f"  {line.detail}", style="dim")
    return out


def show_source(args: Namespace) -> bool:
    """Whether --kernel names a source, by `file.c:function` or where no kernel has that name; then its best configurations were printed, one
    for each key."""
    from ...named_kernels import is_named, is_path
    from ..functions.tracing import source_rows, split_source

    file, function = split_source(args.kernel)
    if args.target or args.opts is not None or (not file and (is_named(function) or is_path(function))):
        return False
    with cache.open(args.cache) as store:
        best = [b for key in dict.fromkeys(r.key for r in source_rows(store, args.kernel)) if (b := store.best(key)) is not None]
    asked = _matching_rows(args, best)
    if not best:
        if file:
            raise UsageError(f"the cache holds no answer for {function} of {file}: tune source {file} --function {function} finds one")
        return False
    if not asked:
        raise UsageError(f"no answer for {args.kernel} has that shape, device or number of threads: {'; '.join(map(_about, best))}")
    if args.stage:
        raise UsageError("a source has no stages; --source prints its text")
    for i, row in enumerate(asked[:1] if args.source else asked):
        _print(row, args.source, i)
    return True


def _matching_rows(args: Namespace, rows: list[Row]) -> list[Row]:
    """Those of that shape and number of threads, the newest first. The device is looked at where it is not the default."""
    want: dict[str, int] = {}
    if args.shape:
        from ...named_kernels import parse_shape

        want = parse_shape(args.shape)
    kept = [
        r for r in rows if want.items() <= r.shape_dict.items() and args.threads in (None, r.threads) and args.device in ("cpu", r.device)
    ]
    return sorted(kept, key=lambda r: r.when, reverse=True)


def _about(row: Row) -> str:
    return f"{shape_of(row)} on {row.device}, {row.threads} thread{'s' * (row.threads != 1)}"


def _print(row: Row, text_alone: bool, at: int) -> None:
    from rich.text import Text

    source: dict[str, Any] = row.facts["source"]
    text = str(source.get("text", ""))
    if text_alone:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        return
    out = console()
    if at:
        out.print()
    time = f", {duration(row.t_min)}" if row.t_min else ""
    out.print(Text.assemble((row.name, "bold"), f" of {source.get('file')}, {_about(row)}{time}"), soft_wrap=soft_wrapped(out))
    out.print(opts_text(parse(row.opts)), soft_wrap=soft_wrapped(out))
    flags = [str(f) for f in source.get("flags", ())]
    if flags:
        out.print(Text(f"flags: {shlex.join(flags)}", style="dim"), soft_wrap=True)
    out.print()
    out.print(text, soft_wrap=True)


# difference -------------------------------------------------------------------------------------------------
# `tune show --diff A B`: what is different between two schedules, from their options to their source.


CONTEXT = 3
"""Lines of source around each difference."""
COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True)
class ShownSide:
    """One of the two: its options and where they are from, the schedule, its source, what the model expects (seconds),
    the newest verified measurement in the cache, and for a processor the terms of the counted time."""

    name: str
    opts: tuple[Opt, ...]
    origin: str
    scheduled: Scheduled
    source: str
    expected: float
    row: Row | None
    terms: CpuTerms | None = None


def difference(kernel: Kernel, place: ForTarget, args: Namespace) -> int:
    """Print it; `--source` prints the difference of the sources alone, `--stage schedule` and others that of a stage."""
    from rich.text import Text

    a, b = (side(name, text, kernel, place, args) for name, text in zip("AB", args.diff, strict=True))
    out = console()
    only_source = args.source or args.stage
    if not only_source:
        target = f"{kernel.name} for {place.target.name}"
        out.print(Text.assemble((target, "bold")), soft_wrap=soft_wrapped(out))
        for s in (a, b):
            out.print(Text.assemble((s.name, "bold"), "  ", opts_text(s.opts), (f"   {s.origin}", "dim")), soft_wrap=soft_wrapped(out))
        for line in facts(a, b):
            out.print(line, soft_wrap=soft_wrapped(out))
        for heading, before, after in (("loop nest", _nest(a), _nest(b)),):
            _show(out.print, heading, before, after, len(before) + len(after))
    if args.stage:
        for stage, before, after in _stages(kernel, a, b, place, args.stage):
            _show(out.print, stage, before, after, CONTEXT)
    else:
        _show(out.print, "source", a.source.splitlines(), b.source.splitlines(), CONTEXT)
    return 0


def side(name: str, text: str, kernel: Kernel, place: ForTarget, args: Namespace) -> ShownSide:
    """A schedule with all that is compared. Raises OptError."""
    from ...heuristics import cpu_terms, estimate
    from ...lower import lower
    from ...opts import apply
    from ...renderers import render

    found = chosen(text, kernel, place, args)
    scheduled = apply(kernel, found.opts, place.target)
    limits = place.device.limits() if place.device is not None else None
    expected = estimate(scheduled, place.threads, limits)
    source = render(lower(scheduled), place.target).text
    terms = None if place.target.kind == "gpu" else cpu_terms(scheduled, place.threads, limits)
    return ShownSide(name, found.opts, found.origin, scheduled, source, expected, _measured(kernel, found.opts, place, args), terms)


def _measured(kernel: Kernel, opts: tuple[Opt, ...], place: ForTarget, args: Namespace) -> Row | None:
    """The newest measurement of the schedule for this very key that was right."""
    if place.device is None:
        return None
    from ...plan.identity import canonical_of, key_of

    key = key_of(kernel, place.device, place.threads, policy(allowed(args.allow or ())))
    wanted = canon(canonical_of(kernel).to_canonical([o.json for o in opts], SYNTAX))
    with cache.open(args.cache) as store:
        fields = {"kernel": key.kernel, "target": key.target, "threads": key.threads, "compiler": key.compiler, "policy": key.policy}
        rows = [r for r in store.rows(**fields) if r.opts == wanted and r.outcome in ("ok", "slow") and r.t_min]
    return rows[-1] if rows else None


def facts(a: ShownSide, b: ShownSide) -> Iterator[Text]:
    """The options that differ, and the times that are expected and were measured."""
    from rich.text import Text

    left, right = _without(a.opts, b.opts), _without(b.opts, a.opts)
    for s, only in ((a, left), (b, right)):
        yield Text.assemble((f"only in {s.name}   ", "dim"), opts_text(only) if only else Text("nothing", style="dim"))
    if not left and not right and a.opts != b.opts:
        yield Text("the same options in another order", style="dim")
    if a.source == b.source:
        yield Text("both render to the same source")
    times = f"{a.name} {duration(a.expected)}, {b.name} {duration(b.expected)}: {factor(b.expected / a.expected)}"
    yield Text.assemble(("by the model  ", "dim"), times)
    yield from _phases(a, b)
    yield from _terms(a, b)
    measured = ", ".join(f"{s.name} {_time(s.row)}" for s in (a, b))
    yield Text.assemble(("measured      ", "dim"), measured)
    yield Text(
        "times of different moments are not comparable to a few percent; `tune bench --opts A --opts B` compares in pairs", style="dim"
    )


def _time(row: Row | None) -> str:
    if row is None or row.t_min is None:
        return "never"
    return f"{duration(row.t_min)} on {row.when[:10]}"


LEAST = 0.01
"""Of the longer expected time: what differs by less is not shown."""


def _terms(a: ShownSide, b: ShownSide) -> Iterator[Text]:
    """For processors: what the counted time is made of, and which terms differ, the largest difference first."""
    from rich.text import Text

    if a.scheduled.target.kind == "gpu":
        return
    left, right = (s.terms for s in (a, b))
    if left is None or right is None:
        return
    times = f"{a.name} {duration(left.total)}, {b.name} {duration(right.total)}: {factor(right.total / left.total)}"
    yield Text.assemble(("counted       ", "dim"), times)
    before, after = left.named(), right.named()
    # terms are of all threads together
    least = LEAST * max(max(before.values()), max(after.values()))
    told = sorted((n for n in before if abs(after[n] - before[n]) >= least), key=lambda n: -abs(after[n] - before[n]))
    for name in told:
        change = duration(abs(after[name] - before[name]))
        sign = "+" if after[name] > before[name] else "-"
        yield Text(f"  {name:<12}{duration(before[name]):>10}  {duration(after[name]):>10}  {sign}{change}")
    if told:
        yield Text("  seconds of one core for all work; units work beside each other, so they add up to more", style="dim")
    else:
        yield Text("  no term differs by more than a hundredth", style="dim")


def _phases(a: ShownSide, b: ShownSide) -> Iterator[Text]:
    """What decides how long each phase takes on a GPU, beside each other."""
    from rich.text import Text

    if a.scheduled.target.kind != "gpu":
        return
    from ...heuristics import gpu_estimates

    for s in (a, b):
        for i, e in enumerate(gpu_estimates(s.scheduled)):
            terms = ", ".join(f"{t.name} {duration(t.seconds)}" for t in e.terms)
            yield Text(f"  {s.name}, phase {i}: {terms}; {e.registers} registers, {e.resident} groups at once")


def _without(some: Sequence[Opt], others: Sequence[Opt]) -> tuple[Opt, ...]:
    """Those of `some` that `others` lacks, as often as it does."""
    left = list(others)
    out = []
    for o in some:
        if o in left:
            left.remove(o)
        else:
            out.append(o)
    return tuple(out)


def _nest(s: ShownSide) -> list[str]:
    return [
        "  " * n.depth + "  ".join(filter(None, (f"{n.label} {n.extent_text}".strip(), n.kind, n.detail))) for n in nest_lines(s.scheduled)
    ]


def _stages(
    kernel: Kernel, a: ShownSide, b: ShownSide, place: ForTarget, wanted: Sequence[str]
) -> Iterator[tuple[str, list[str], list[str]]]:
    from ..grammar.schedule_arguments import ONLY_CUDA, STAGES

    every = [s for s in STAGES if s not in ONLY_CUDA or (s == "sass" and place.target.lang == "cuda")]
    for stage in every if "all" in wanted else wanted:
        texts = (stages_text(kernel, s.scheduled, place.target, [stage], optional="all" in wanted) for s in (a, b))
        before, after = (t.splitlines() for t in texts)
        yield stage, before, after


def _show(say: object, heading: str, before: Sequence[str], after: Sequence[str], context: int) -> None:
    """A unified difference, coloured; one line where there is none."""
    from rich.text import Text

    assert callable(say)
    lines = list(difflib.unified_diff(before, after, "A", "B", n=context, lineterm=""))[2:]
    added, gone = (sum(x.startswith(sign) for x in lines) for sign in "+-")
    said = f"{gone} lines only in A, {added} only in B" if lines else "the same"
    say(Text.assemble("\n", (heading, "bold"), f": {said}"), soft_wrap=True)
    for x in lines if context == CONTEXT else (x for x in lines if not x.startswith("@")):
        say(Text(x, style=COLOURS.get(x[:1], "")), soft_wrap=True)


# stages -----------------------------------------------------------------------------------------------------
# `tune show --stage`: one kernel on its way from values over axes to machine code, each stage as text.


def stages_text(
    kernel: Kernel,
    scheduled: Scheduled,
    target: Target,
    stages: Sequence[str],
    optional: bool = False,
    written: Kernel | None = None,
) -> str:
    """The texts of `stages`, with a heading each where there are several; ends with a newline. `optional`: a stage
    that cannot be seen here says why, instead of raising DeviceError. `written`: the kernel before it was normalised."""
    made = _Stages(kernel, scheduled, target, written or kernel)
    texts = []
    for stage in stages:
        try:
            text = str(getattr(made, stage)())
        except DeviceError as e:
            if not optional:
                raise
            text = f"not to be seen here: {e}\n"
        text += "" if text.endswith("\n") else "\n"
        texts.append(text if len(stages) == 1 else f"== {stage}\n{text}")
    return "\n".join(texts)


class _Stages:
    """A method a stage; what several need is made once."""

    def __init__(self, kernel: Kernel, scheduled: Scheduled, target: Target, written: Kernel) -> None:
        self.made_of, self.scheduled, self.target, self.written = kernel, scheduled, target, written

    @cached_property
    def lowered(self) -> Program:
        from ...lower import lower

        return lower(self.scheduled)

    @cached_property
    def rendered(self) -> Source:
        from ...renderers import render

        return render(self.lowered, self.target)

    def kernel(self) -> str:
        """Values over axes, and the form under which caches know it."""
        form = canonical(self.made_of)
        return f"{kernel_text(self.made_of)}\ncanonical form\n{form.text.rstrip()}\n\nstructural hash {form.hash}\n"

    def normal(self) -> str:
        """The rules that gave the kernel its normal form, and what each changed."""
        from difflib import ndiff

        out: list[str] = []
        before = kernel_text(self.written).splitlines()
        for rule, kernel in applied(self.written):
            after = kernel_text(kernel).splitlines()
            out += [f"{rule.name}: {rule.before} -> {rule.after}", *(f"  {line}" for line in ndiff(before, after) if line[0] in "+-"), ""]
            before = after
        return "\n".join(out) or "no rule applies: the kernel is in normal form as it is written"

    def schedule(self) -> str:
        """Every decision, and the loop nest."""
        return schedule_text(self.scheduled)

    def program(self) -> str:
        """The Program that is rendered."""
        from ...program.listing import show

        return show(self.lowered)

    def passes(self) -> str:
        """The Program as it was emitted, and what each pass changed."""
        from ...lower import lower
        from ...program.listing import History

        history = History()
        lower(self.scheduled, observe=history)
        return history.text()

    def source(self) -> str:
        """The rendered text."""
        return self.rendered.text

    def asm(self) -> str:
        """What the compiler makes of the source."""

        return assembly(self.rendered)

    def ptx(self) -> str:
        """NVIDIA's assembly for every GPU, which `asm` shows as well."""

        return ptx(self.rendered)

    def sass(self) -> str:
        """The machine code of one NVIDIA GPU."""

        return machine_code(self.rendered)


# assembly ---------------------------------------------------------------------------------------------------
# What a device's compiler makes of rendered text, for people: assembly of processors, PTX of CUDA. Needs no device,
# only its compiler.


def assembly(source: SourceLike) -> str:
    """Assembly of LLVM IR (by the LLVM that the cpu device builds with) and of C (by this machine's compiler), PTX of
    CUDA C++ (by NVRTC).

    Raises DeviceError for a language whose compiler shows nothing, or where the compiler is not here; BuildError
    where it rejects the text."""
    target = source.target
    if target.lang == "llvm":
        from ...devices.cpu.engine import assembly_of

        return assembly_of(source.text, target)
    if target.lang == "c":
        from ...devices.cpu import c_compiler as cc

        if target.arch != host().arch:
            what = f"the C compiler here makes assembly of {host().arch}, not of {target.arch}"
            raise DeviceError(f"{what}; show it without --device cpu:c, by LLVM")
        return cc.assembly_of(source.text, target, cc.find())
    if target.lang == "cuda":
        from ...devices.cuda import nvrtc

        return nvrtc.compile_to_ptx(source.text, target.cpu)
    who = "an OpenCL driver" if target.lang == "opencl" else f"the compiler of {target.lang}"
    what = f"{who} keeps its machine code to itself, so there is no assembly for {target.name}"
    raise DeviceError(f"{what}; look at --stage source, the last that can be seen")


def ptx(source: SourceLike) -> str:
    """PTX of CUDA C++, NVIDIA's assembly for every GPU. Raises DeviceError for any other language, else as `assembly` does."""
    _only_cuda(source, "PTX")
    return assembly(source)


def machine_code(source: SourceLike) -> str:
    """SASS, the machine code of one NVIDIA GPU, as text (by NVRTC and nvdisasm), after what each kernel takes. Raises DeviceError for any
    other language, else as `assembly` does."""
    _only_cuda(source, "SASS")
    from ...devices.cuda.machine_code import listing

    return listing(source)


def _only_cuda(source: SourceLike, what: str) -> None:
    target = source.target
    if target.lang != "cuda":
        raise DeviceError(f"{what} is of NVIDIA GPUs (--target sm_90a), and {target.name} is none; see --stage asm")
