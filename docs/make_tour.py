"""Write the output blocks of docs/tour.md: `python docs/make_tour.py`. `tests/test_docs.py` checks that they are what this makes.

A block stands between `<!-- tour NAME -->` and `<!-- end NAME -->`, and the function NAME here makes it. Code is made for x86-64-v3 on every
machine. Where something is measured or belongs to the machine, `…` stands in its place."""

from __future__ import annotations

import difflib
import inspect
import json
import re
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tilewright import devices, targets
from tilewright.cache import Cache, Row, tool_version
from tilewright.files.strict import canon
from tilewright.heuristics import estimate, starts
from tilewright.interp import run
from tilewright.ir import OptError
from tilewright.ir.cost import cost
from tilewright.ir.evaluation import evaluate
from tilewright.ir.normal_form import canonical
from tilewright.lower import lower
from tilewright.measure import Measurement, Measurer
from tilewright.named_kernels import get, make
from tilewright.opts import actions, apply, dumps, nest_lines, parse, short
from tilewright.plan import key_of, opts_text, resolve
from tilewright.program.listing import show
from tilewright.renderers import render

PAGE = Path(__file__).with_name("tour.md")
SHAPE = {"m": 8, "n": 32, "k": 16}
KERNEL = make("matmul", SHAPE, "float32")
TARGET = targets.named("x86-64-v3")
OPTS = parse('[["UPCAST","m",2],["UPCAST","n",16],["TILE","n",16],["PARALLEL","n"],["UNROLL","k",2]]')
MASKED = {"t_min", "t_med", "n", "error", "sha", "build_s", "lower_s", "compared"}
"""Fields of a Measurement that differ from run to run, or from machine to machine."""


def kernel() -> str:
    """The kernel as it is written."""
    return python(inspect.getsource(get("matmul").make))


def canonical_form() -> str:
    """The text without names, its hash, and what the names became."""
    form = canonical(KERNEL)
    names = ", ".join(f"{name} is {new}" for name, new in {**form.tensors, **form.axes}.items())
    return text(f"{form.text}\nSHA-256 of this text: {form.hash}\n{names}")


def options() -> str:
    """The list of options: as JSON, and in short form."""
    return text(f"{dumps(OPTS)}\n{short(OPTS)}")


def illegal() -> str:
    """What an illegal option says."""
    try:
        apply(KERNEL, [*OPTS, *parse('[["UPCAST","k",12]]')], TARGET)
    except OptError as error:
        return text(f"OptError: {error}")
    raise AssertionError("the option is legal")


def naive_nest() -> str:
    """The loops without any option."""
    return text(nest(()))


def loop_nest() -> str:
    """The loops of the schedule."""
    return text(nest(OPTS))


def proposals() -> str:
    """What the start schedules are, how the model ranks them, and how many steps a search could take from here."""
    ranked = [f"{short(s):<24} {estimate(apply(KERNEL, s, TARGET), 2) * 1e6:.2f} us by the model" for s in starts(KERNEL, TARGET, 2)[:3]]
    steps = len(list(actions(apply(KERNEL, OPTS, TARGET))))
    return text("\n".join([*ranked, f"{steps} legal next steps from the schedule above"]))


def program() -> str:
    """The Program of the schedule."""
    return text(show(lowered(True)))


def barriers() -> str:
    """What the pass `barriers` adds to a schedule for a GPU."""
    target = targets.named("sm_90a")
    opts = parse('[["LOCAL","n",32],["TILE","k",8],["STAGE","b",{"at":"k","order":"row"}]]')
    stages: dict[str, list[str]] = {}
    lower(apply(KERNEL, opts, target), observe=lambda name, made: stages.update({name: show(made).splitlines()}))
    changes = [*difflib.unified_diff(stages["emit"], stages["barriers"], n=3, lineterm="")][3:]
    return text("\n".join([f"{short(opts)} for {target.name}, stages: {', '.join(stages)}", *changes]))


def interpreted() -> str:
    """The Program in the interpreter: in floating point, and as the integer twin."""
    rng = np.random.default_rng(0)
    arrays = {b.name: rng.standard_normal(b.shape).astype(np.float32) for b in KERNEL.inputs} | {"c": np.zeros((8, 32), np.float32)}
    run(lowered(True), arrays)
    want = evaluate(KERNEL, {n: arrays[n] for n in ("a", "b")})["c"]
    error = f"largest error against the float64 reference below 1e-5: {bool(np.abs(arrays['c'] - want).max() < 1e-5)}"
    bits = {b.name: rng.integers(0, 1 << 32, b.shape, np.uint32) for b in KERNEL.inputs} | {"c": np.zeros((8, 32), np.uint32)}
    run(lowered(False), bits, twin=True)
    same = f"twin: all {bits['c'].size} elements equal, bit for bit: {bool((bits['c'] == bits['a'] @ bits['b']).all())}"
    return text(f"{error}\n{same}")


def llvm() -> str:
    """The innermost loop in LLVM IR."""
    source = render(lowered(True), TARGET).text
    return text(part(source, "loop4:", "after4:"))


def c_source() -> str:
    """The same Program in C: the function over grid items."""
    target = replace(TARGET, lang="c")
    source = render(lower(apply(KERNEL, OPTS, target)), target).text
    return fenced(part(source, "static __attribute__((noinline))", "\nvoid "), "c")


def measurement() -> str:
    """One candidate, built and timed on this machine."""
    shown = {k: "…" if k in MASKED else v for k, v in asdict(measured()).items() if k != "opts"}
    return text("\n".join(f"{k:<8} {v.value if k == 'outcome' else v!r}" for k, v in shown.items()).replace("'…'", "…"))


def row() -> str:
    """The row of the measurement, without its empty fields."""
    kept = {k: v for k, v in recorded().to_dict().items() if v not in ("", None, "{}")}
    for name in ("target", "compiler", "t_min", "t_med", "n", "source_sha", "tool_version", "when"):
        kept[name] = "…"
    return fenced(json.dumps(kept, indent=1, ensure_ascii=False), "json")


def lookup() -> str:
    """A look-up that hits, and one that does not."""
    device = devices.get("cpu")
    with tempfile.TemporaryDirectory() as folder, Cache.open(Path(folder) / "cache.db") as store:
        store.record(recorded())
        hit, miss = resolve(KERNEL, device, 1, store), key_of(KERNEL, device, 3)
        said = [f"1 thread: origin {hit.origin}, {hit.standing}, {short(hit.opts)}", "3 threads:", *store.explain(miss).lines()]
    masked = "\n".join(said).replace(device.target.key, "…").replace(device.compiler_id(), "…")
    return text(masked)


@cache
def measured() -> Measurement:
    """The schedule, measured here on one thread. Seconds."""
    with Measurer(KERNEL, "cpu", 1, builders=1) as m:
        return m.measure(list(dict(m.build([OPTS])).values()))[0]


@cache
def recorded() -> Row:
    """What a search would record of it, were it the winner."""
    m, key = measured(), key_of(KERNEL, devices.get("cpu"), 1)
    return Row(
        kernel=key.kernel, target=key.target, threads=key.threads, compiler=key.compiler, policy=key.policy, name="matmul",
        shape=canon(SHAPE), dtype="float32", device="cpu", opts=opts_text(KERNEL, OPTS), opts_display=dumps(OPTS), outcome=m.outcome.value,
        t_min=m.t_min, t_med=m.t_med, n=m.n, flops=cost(KERNEL).flops, bytes=cost(KERNEL).bytes, verified=True, source_sha=m.sha or "",
        tool_version=tool_version(), provenance={"confirmed": True},
    )  # fmt: skip


@cache
def lowered(expand: bool) -> Any:
    """The Program of the schedule; `expand=False` is for the twin."""
    return lower(apply(KERNEL, OPTS, TARGET), expand)


def nest(opts: Any) -> str:
    """A loop nest as text, a line a loop."""
    lines = nest_lines(apply(KERNEL, opts, TARGET))
    return "\n".join(f"{'  ' * n.depth}{n.label} {n.extent_text}".rstrip().ljust(40) + f"  {n.kind}  {n.detail}".rstrip() for n in lines)


def part(source: str, begin: str, end: str) -> str:
    """The text from `begin` to before `end`."""
    at = source.index(begin)
    return source[at : source.index(end, at)].rstrip()


def fenced(body: str, language: str) -> str:
    """A block of code."""
    return f"```{language}\n{body.rstrip()}\n```"


def text(body: str) -> str:
    """A block of plain text."""
    return fenced(body, "text")


def python(body: str) -> str:
    """A block of Python."""
    return fenced(body, "python")


BLOCKS: dict[str, Callable[[], str]] = {
    f.__name__: f
    for f in (
        kernel, canonical_form, naive_nest, options, loop_nest, illegal, proposals, program, barriers, interpreted, llvm, c_source, measurement, row, lookup,
    )
}  # fmt: skip


def made(page: str) -> str:
    """`page` with every block made anew."""
    return re.sub(
        r"<!-- tour (\w+) -->\n.*?<!-- end \1 -->",
        lambda m: f"<!-- tour {m[1]} -->\n{BLOCKS[m[1]]()}\n<!-- end {m[1]} -->",
        page,
        flags=re.S,
    )


if __name__ == "__main__":
    PAGE.write_text(made(PAGE.read_text()))
