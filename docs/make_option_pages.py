"""Writes docs/options/: a page for each option, with the loops before and after, what it does, and what it checks.

python docs/make_option_pages.py

Everything on a page comes from the option's declaration and from applying it. `tests/test_docs.py` compares the pages with what this makes."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright import named_kernels
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.dtypes import float32, int32
from tilewright.ir.functions import exp, log, where
from tilewright.ir.kernel import Kernel
from tilewright.ir.normal_form import normalise
from tilewright.ir.operators import cast
from tilewright.opts import apply, dumps, nest_lines, parse, short
from tilewright.opts.options.rewrite import RULES
from tilewright.opts.registry import OPTIONS, Option
from tilewright.targets import named

FOLDER = Path(__file__).with_name("options")
CPU, GPU, HOPPER = "x86-64-v3", "opencl-gpu", "sm_90a"


class Example(NamedTuple):
    """A kernel, options without the one that is shown, and with it."""

    kernel: Callable[[], Kernel]
    before: Sequence[Any]
    after: Sequence[Any]
    target: str = CPU
    title: str = ""


def named_kernel(name: str, **shape: int) -> Callable[[], Kernel]:
    """A named kernel of a shape."""
    return lambda: named_kernels.make(name, shape)


def chain() -> Kernel:
    """A product of three matrices, written as one sum."""
    kb = KernelBuilder("chain")
    i, j, k, l = kb.axis("i", 8), kb.axis("j", 16), kb.axis("k", 16), kb.axis("l", 8)
    a, b, c = (kb.input(n, s, float32) for n, s in (("a", (8, 16)), ("b", (16, 16)), ("c", (16, 8))))
    acc = kb.sum("acc", (i, l), (j, k), a[i, j] * b[j, k] * c[k, l])
    kb.store("y", float32, (8, 8), (i, l), acc[i, l])
    return normalise(kb.build())


def divergences() -> Kernel:
    """Σ p · (log p − log q) for all pairs of distributions."""
    kb = KernelBuilder("divergences")
    i, j, e = kb.axis("n", 8), kb.axis("k", 8), kb.axis("d", 16)
    p, q = kb.input("p", (8, 16), float32, range=(0.01, 1.0)), kb.input("q", (8, 16), float32, range=(0.01, 1.0))
    kl = kb.sum("kl", (i, j), e, p[i, e] * (log(p[i, e]) - log(q[j, e])))
    kb.store("y", float32, (8, 8), (i, j), kl[i, j])
    return normalise(kb.build())


def centred_histogram() -> Kernel:
    """A histogram, less its largest count."""
    kb = KernelBuilder("centred_histogram")
    a, v, u = kb.axis("n", 64), kb.axis("v", 16), kb.axis("v@most", 16)
    key = kb.input("key", (64,), int32, range=(0, 15))
    many = kb.sum("many", (v,), a, where(key[a].eq(cast(v, int32)), 1, 0))
    most = kb.max("most", (), u, many[u])
    kb.store("y", "int64", (16,), (v,), many[v] - most[()])
    return normalise(kb.build())


def gradient() -> Kernel:
    """A step of a linear model: each row is read for its residual, and again for the gradient."""
    kb = KernelBuilder("gradient")
    i, e, s, j = kb.axis("n", 16), kb.axis("d@dot", 32), kb.axis("n@grad", 16), kb.axis("d", 32)
    x, w, t = kb.input("x", (16, 32), float32), kb.input("w", (32,), float32), kb.input("t", (16,), float32)
    dot = kb.sum("dot", (i,), e, x[i, e] * w[e])
    grad = kb.sum("grad", (j,), s, (dot[s] - t[s]) * x[s, j])
    kb.store("new", float32, (32,), (j,), w[j] - grad[j])
    return normalise(kb.build())


def statistics() -> Kernel:
    """The sum and the largest element of each row."""
    kb = KernelBuilder("statistics")
    i, j, k = kb.axis("m", 8), kb.axis("n@sum", 64), kb.axis("n@max", 64)
    x = kb.input("x", (8, 64), float32)
    kb.store("total", float32, (8,), (i,), kb.sum("s", (i,), j, x[i, j])[i])
    kb.store("most", float32, (8,), (i,), kb.max("top", (i,), k, x[i, k])[i])
    return normalise(kb.build())


def attention() -> Kernel:
    """Attention of 16 queries and keys, written as scores, their maximum, a sum and a weighted sum."""
    kb = KernelBuilder("attention")
    i, o, e = kb.axis("s", 16), kb.axis("d@out", 8), kb.axis("d@dot", 8)
    jd, jm, js, jo = (kb.axis(f"k@{n}", 16) for n in ("dot", "max", "sum", "out"))
    q, k, v = (kb.input(n, (16, 8), float32) for n in "qkv")
    dot = kb.sum("dot", (i, jd), e, q[i, e] * k[jd, e])
    top = kb.max("top", (i,), jm, dot[i, jm])
    total = kb.sum("total", (i,), js, exp(dot[i, js] - top[i]))
    mix = kb.sum("mix", (i, o), jo, exp(dot[i, jo] - top[i]) * v[jo, o])
    kb.store("y", float32, (16, 8), (i, o), mix[i, o] / total[i])
    return normalise(kb.build())


MATMUL = named_kernel("matmul", m=64, n=64, k=64)
RULE_EXAMPLES = {
    "factor": Example(chain, [], [["REWRITE", "j", {"rule": "factor"}]]),
    "distribute": Example(divergences, [], [["REWRITE", "kl", {"rule": "distribute"}]]),
    "operands": Example(divergences, [], [["REWRITE", "kl", {"rule": "operands", "along": "k"}]]),
    "hoist": Example(divergences, [], [["REWRITE", "kl", {"rule": "hoist"}]]),
    "scatter": Example(centred_histogram, [], [["REWRITE", "many", {"rule": "scatter"}]]),
    "accumulate": Example(gradient, [], [["REWRITE", "grad", {"rule": "accumulate"}]]),
}
EXAMPLES: dict[str, list[Example]] = {
    "LOCAL": [Example(MATMUL, [], [["LOCAL", "m", 8], ["LOCAL", "n", 8]], GPU)],
    "GROUP": [Example(named_kernel("sum_rows", m=64, n=1024), [], [["GROUP", "n", 64]], GPU)],
    "SWIZZLE": [Example(MATMUL, [["LOCAL", "m", 8], ["LOCAL", "n", 8]], [["LOCAL", "m", 8], ["LOCAL", "n", 8], ["SWIZZLE", "grid", 4]], GPU)],
    "GRID": [Example(named_kernel("matmul", m=512, n=512, k=64), [["LOCAL", "m", 8]], [["LOCAL", "m", 8], ["GRID", "grid", {"persist": 2}]], HOPPER)],
    "TC": [
        Example(
            lambda: normalise(named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64}, "float16")), [],
            [["TC", "acc", {"m": "m", "n": "n", "k": "k", "row": "mma.m16n8k16.f16"}]], HOPPER,
        )
    ],
    "FOLD": [Example(attention, [], [["FOLD", "k"]])],
    "FUSE": [Example(statistics, [], [["FUSE", "n"]])],
    "REWRITE": [e._replace(title=RULES[rule].written) for rule, e in RULE_EXAMPLES.items()],
}  # fmt: skip


REFUSED: dict[str, list[Any]] = {
    "TILE": ["TILE", "q", 8], "MOVE": ["MOVE", "m", {"before": "m"}], "UPCAST": ["UPCAST", "m", 48], "UNROLL": ["UNROLL", "m", 2],
    "PARALLEL": ["PARALLEL", "k"], "LOCAL": ["LOCAL", "m", 8], "GROUP": ["GROUP", "k", 8], "FOLD": ["FOLD", "k"],
    "REWRITE": ["REWRITE", "acc", {"rule": "hoist"}], "PHASE": ["PHASE", "c"], "HALO": ["HALO", "k", 8], "SPLIT": ["SPLIT", "m", 2],
    "FUSE": ["FUSE", "m"], "STAGE": ["STAGE", "acc", {"at": "m"}], "SWIZZLE": ["SWIZZLE", "grid", 4],
    "TC": ["TC", "acc", {"n": "n", "k": "k", "row": "vpdpbusd"}], "GRID": ["GRID", "grid", {"persist": 1}], "PADTO": ["PADTO", "m", 1],
    "CACHE": ["CACHE", "a", {"policy": "stream"}], "EARLY_EXIT": ["EARLY_EXIT", "acc"], "OWN": ["OWN", "c", 8],
}  # fmt: skip
"""An illegal use of each option on a matrix product for x86-64-v3, whose refusal its page shows."""


def refusal(name: str) -> str:
    """What `apply` says of it."""
    try:
        apply(MATMUL(), parse([REFUSED[name]]), named(CPU))
    except OptError as e:
        return str(e)
    raise AssertionError(f"{REFUSED[name]} is legal")


def examples(option: Option) -> list[Example]:
    """What a page shows: the examples here, or the option's golden cases."""
    if option.name in EXAMPLES:
        return EXAMPLES[option.name]
    out = []
    for case in option.golden.values():
        kernel = named_kernel(case.kernel, **case.shape)
        before = [o for o in case.opts if o[0] != option.name]
        try:
            apply(kernel(), parse(before), named(CPU))
        except OptError:
            before = []
        out.append(Example(kernel, before, case.opts))
    return out


def loops(e: Example, opts: Sequence[Any]) -> str:
    """The loop nest of a schedule, as `tune show` prints it, in a block."""
    lines = nest_lines(apply(e.kernel(), parse(opts), named(e.target)))
    rows = ["  " * x.depth + "  ".join(filter(None, [f"{x.label} {x.extent_text}".strip(), x.kind, x.detail])) for x in lines]
    return "\n".join(["```text", *rows, "```"])


def prose(function: Callable[..., Any] | None) -> list[str]:
    """What a function's docstring says, as the lines of one paragraph."""
    return textwrap.wrap(" ".join((function.__doc__ or "").split()), 118) if function is not None else []


def page(option: Option) -> str:
    """The text of an option's page."""
    out = [f"# {option.name}", "", "<!-- written by docs/make_option_pages.py -->", ""]
    out += [f"One of the [options](../options.md), short form `{option.letter}`.", ""]
    for d in option.docs:
        meaning = d.meaning.replace("](#", "](../options.md#")
        out += textwrap.wrap(f"* `{d.written}`: {meaning}", 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    for e in examples(option):
        before, after = parse(e.before) if e.before else (), parse(e.after)
        out += ["", f"## {e.title or ', '.join(str(o) for o in after if o.op == option.name)}", ""]
        out += [f"{e.kernel().name} for {e.target}: `{short(after)}`, in JSON", "", "```json", dumps(after), "```", ""]
        out += [f"Before{f', with `{short(before)}`' if before else ''}:", "", loops(e, e.before), "", "After:", "", loops(e, e.after)]
    out += ["", "## Rewrite" if option.rewrite else "## What it does", "", *prose(option.rewrite or option.act), "", "## Checks", ""]
    out += [*prose(option.check), ""] if option.check else []
    out += ["A refusal, of a matrix product:", "", "```text", refusal(option.name), "```"]
    return "\n".join(out) + "\n"


def made() -> dict[Path, str]:
    """Every page by its path."""
    return {FOLDER / f"{option.name.lower()}.md": page(option) for option in OPTIONS.values()}


if __name__ == "__main__":
    for path, text in made().items():
        path.write_text(text)
