"""`tune graph`: what a function of tensors becomes: each kernel, each boundary with the rule that made it, and bytes."""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
import sys
from argparse import Namespace
from typing import TYPE_CHECKING

from ... import targets
from ...files.write_file import replace
from ...ir.errors import UsageError
from ...ir.kernel import kernel_text
from ...ir.normal_form import loose, normalise
from ..terminal.style import bytes_text, console, soft_wrapped, table
from .pictures import count_text, dot_text, page, shape_dtype, summary
from .tracing import FunctionGraph, ask

if TYPE_CHECKING:
    from rich.console import Console

    from ...ir.kernel import Kernel
    from ...tensor.fusion.fusion_facts import GraphFacts, KernelFacts, TensorFacts


# named ------------------------------------------------------------------------------------------------------
# Which named kernel a kernel is, whatever its extents are.


def named(kernel: Kernel) -> str:
    """The named kernel that has the same form at other extents ('' where there is none). Equal ones share schedules of
    similar extents; where the extents are equal too, they share the key."""

    if kernel.symbols or any(0 in b.shape for b in kernel.buffers):
        return ""
    alike = _kernels().get(_parameters(kernel), ())
    form = _form(kernel) if alike else ""
    return next((name for name, made in alike if _form(made) == form), "")


def _form(kernel: Kernel) -> str:
    return loose(normalise(kernel))["extents"]


def _parameters(kernel: Kernel) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((b.role, b.dtype.name) for b in kernel.buffers))


@functools.cache
def _kernels() -> dict[tuple[tuple[str, str], ...], list[tuple[str, Kernel]]]:
    """All named kernels, small, by the types of their parameters."""
    from ...named_kernels import NAMES, get

    found: dict[tuple[tuple[str, str], ...], list[tuple[str, Kernel]]] = {}
    for name in NAMES:
        made = get(name)
        for dtype in made.dtypes:
            kernel = made.kernel(made.odd_shape, dtype)
            found.setdefault(_parameters(kernel), []).append((name, kernel))
    return found


# graph ------------------------------------------------------------------------------------------------------
def run(args: Namespace) -> int:
    """Print what the function becomes; with --dot, --svg, --html or --json write that file. Raises KernelError and
    UsageError."""
    found = ask(args.function, args.shape, args.dtype)
    wrote = _written(args, found)
    if wrote and "-" in (args.dot, args.json):
        return 0
    out = console()
    for line in wrote:
        out.print(line, soft_wrap=soft_wrapped(out))
    if not wrote:
        _print(out, args, found)
    return 0


def _written(args: Namespace, found: FunctionGraph) -> list[str]:
    """Write the files that were asked for; a line about each."""
    said = []
    if args.json:
        said.append(_write(args.json, json.dumps({"function": found.path, **found.facts.to_json()}, indent=1) + "\n"))
    if args.dot:
        said.append(_write(args.dot, dot_text(found)))
    if args.svg:
        said.append(_write(args.svg, _drawn(dot_text(found))))
    if args.html:
        said.append(_write(args.html, page(found)))
    return said


def _write(path: str, text: str) -> str:
    if path == "-":
        sys.stdout.write(text)
        return ""
    try:
        replace(path, text)
    except OSError as e:
        raise UsageError(f"cannot write {path}: {e.strerror}; name a file in a folder that exists and has room") from None
    return f"wrote {path}"


def _drawn(text: str) -> str:
    """An SVG by Graphviz. Raises UsageError where it is not installed."""
    program = shutil.which("dot")
    if program is None:
        raise UsageError("--svg needs Graphviz's `dot`, which is not installed; --dot writes its input, and --html a page with a picture")
    done = subprocess.run([program, "-Tsvg"], input=text, capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise UsageError(f"dot failed: {done.stderr.strip()[:200]}")
    return done.stdout


# text ---------------------------------------------------------------------------------------------------------------
def _print(out: Console, args: Namespace, found: FunctionGraph) -> None:
    from rich.text import Text

    facts = found.facts
    by_place = {t.number: t for t in facts.tensors}
    out.print(Text.assemble((found.path, "bold"), f": {summary(facts)}"), soft_wrap=soft_wrapped(out))
    for k, kernel in zip(facts.kernels, found.kernels, strict=True):
        out.print()
        alias = named(kernel) if kernel is not None else ""
        head = Text.assemble((f"{k.number + 1}  {k.name}", "bold cyan"))
        if alias and alias != k.name:
            head.append(f"  = {alias}", style="green")
        out.print(head, soft_wrap=soft_wrapped(out))
        for label, text in _about(k, by_place):
            out.print(Text.assemble((f"   {label:<9}", "dim"), text), soft_wrap=soft_wrapped(out))
        if kernel is not None and (args.expr or args.nest):
            _inside(out, args, kernel)
    out.print()
    out.print(boundaries(facts))
    for line, why in facts.unfolded:
        out.print(
            Text.assemble(("not in tiles: ", "yellow"), f"the contraction at {line or 'an unknown line'}: {why}"),
            soft_wrap=soft_wrapped(out),
        )


def _about(k: KernelFacts, tensors: dict[int, TensorFacts]) -> list[tuple[str, str]]:
    rows = [("reads", ", ".join(_tensor(tensors[p]) for p in k.inputs) or "nothing")]
    rows += [("writes", f"{_tensor(tensors[p])}: {tensors[p].rule}") for p in k.outputs]
    if k.folded:
        rows.append(("in tiles", "contractions whose results never reach memory: each tile is used at once (the online rewrite)"))
    if k.lines:
        rows.append(("lines", ", ".join(k.lines)))
    if k.host:
        return [*rows, ("runs", "in NumPy, on the host")]
    if k.loop:
        rows.append(("runs", k.loop if k.nbytes == 0 else f"in {k.loop}"))
        if k.nbytes == 0:
            return rows
    moved = f"{bytes_text(k.nbytes)} moved"
    saved = f"; one operation at a time: {bytes_text(k.unfused)}" if k.unfused > k.nbytes else ""
    kept = f"; {bytes_text(k.kept)} of intermediates never reach memory" if k.kept else ""
    return [*rows, ("work", f"{count_text(k.flops)}FLOP, {moved}{saved}{kept}")]


def _inside(out: Console, args: Namespace, kernel: Kernel) -> None:
    if args.expr:
        out.print(kernel_text(kernel).rstrip(), soft_wrap=True)
    if args.nest:
        from ...heuristics import starts
        from ...opts import apply
        from ..schedules.show import nest_text

        target = targets.named(args.target)
        normal = normalise(kernel)
        out.print(nest_text(apply(normal, starts(normal, target, target.cores)[0], target)), soft_wrap=True)


def boundaries(facts: GraphFacts) -> object:
    """Every stored tensor in a table: who makes it, who reads it, and the rule."""
    from rich.text import Text

    readers: dict[int, list[int]] = {}
    for k in facts.kernels:
        for p in k.inputs:
            readers.setdefault(p, []).append(k.number + 1)
    made = table("stored tensors", "tensor", "shape?1", "line?4", ">bytes", "made by?3", "read by?2", "why it is stored")
    for t in facts.tensors:
        if t.made_by is not None:
            by = "the caller" if t.output else ""
            who = ", ".join(filter(None, (", ".join(map(str, readers.get(t.number, []))), by)))
            made.add_row(Text(t.label), Text(shape_dtype(t)), Text(t.line), bytes_text(t.nbytes), str(t.made_by + 1), who, Text(t.rule))
    return made


def _tensor(t: TensorFacts) -> str:
    return f"{t.label} {shape_dtype(t)}"
