"""Start schedules with their numbers left open: the spaces that Optuna samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ..ir.kernel import Kernel
from ..opts.analysis.computed import all_contractions
from ..opts.analysis.dots import fitting
from ..opts.analysis.structure import Contraction, extent, nests, shared_axes
from ..opts.apply_options import apply
from ..opts.decided_blocks import allowed_sizes, undecided
from ..opts.defaults import rows
from ..opts.nests import Nest, build
from ..opts.opt import Opts, opt
from ..opts.options.cache import PREFETCH, STREAM, prefetching
from ..opts.rewrites.split_scatter import alike
from ..targets import Target
from .contraction_order import much_cheaper, order_opts
from .fitted_blocks import fitted
from .gpu_templates import gpu_templates
from .start.chains import chain_schedule, chain_sizes
from .start.computed import paired, phases_first
from .start.constants import packed_once
from .start.contractions import Blocks, contraction
from .start.effects import EXACT
from .start.groups import group_schedule, grouped
from .start.phased import together
from .start.quick import quick_starts
from .start.scatters import scattered
from .start.tiny_axes import beside, tiny_axes


@dataclass(frozen=True)
class Template:
    """A family of schedules: `make` turns one choice for each parameter into options (perhaps illegal ones)."""

    name: str
    params: Mapping[str, tuple[int, ...]]
    make: Callable[[Mapping[str, int]], Opts]


def templates(kernel: Kernel, target: Target, threads: int = 1, allowed: Set[str] = EXACT) -> list[Template]:
    """The templates that fit a kernel's structure, most specific first. `allowed`: effects that they may have on GPUs."""
    if kernel.blocks is not None:
        return [_in_blocks(kernel, t) for t in templates(undecided(kernel), target, threads, allowed)]
    if target.kind == "gpu":
        return [Template(*t) for t in gpu_templates(kernel, target, allowed)]
    out = phased_templates(kernel, target, threads)
    if out and much_cheaper(kernel):
        return out
    found = all_contractions(kernel)
    if found:
        out.append(contraction_template(kernel, target, threads, max(found, key=lambda c: _volume(c.nest))))
    out += [contraction_template(new, target, threads, c, first) for first, new, c in paired(kernel)]
    lanes = max(1, min(target.lanes(n.expr.dtype.compute) for n in nests(kernel)))
    open_sizes = chain_sizes(kernel, target)
    if open_sizes is not None:
        out.append(Template("chain", open_sizes, lambda p: chain_schedule(kernel, lanes, p)))
    shared = [a.arg.name for a in shared_axes(kernel)]

    fetched = [b.name for b in kernel.buffers if prefetching(build(kernel, {}), b) is not None]

    def make_rows(p: Mapping[str, int]) -> Opts:
        opts = tuple(o for o in rows(kernel, target, threads, p["vectors"] * lanes, bool(p["stage"])) if o.op != "CACHE")
        if p["copies"] > 1 and shared:
            opts = (opt("UPCAST", shared[0], p["copies"]), *(o for o in opts if not (o.op == "UPCAST" and o.on == shared[0])))
        if p["nt"]:
            opts = (*opts, *(opt("CACHE", b.name, policy=STREAM) for b in kernel.outputs))
        return (*opts, *(opt("CACHE", name, policy=PREFETCH) for name in fetched)) if p.get("fetch") and not p["nt"] else opts

    if (groups := grouped(kernel)) is not None:

        def make_groups(p: Mapping[str, int]) -> Opts:
            past = tuple(opt("CACHE", b.name, policy=STREAM) for b in kernel.outputs) if p["nt"] else ()
            return (*group_schedule(kernel, groups, p["vectors"] * lanes), *past)

        out.append(Template("groups", {"vectors": (1, 2, 4, 8), "nt": (0, 1)}, make_groups))
    sizes: dict[str, tuple[int, ...]] = {"vectors": (1, 2, 4, 8, 16), "stage": (0, 1), "copies": (1, 2, 4, 8), "nt": (0, 1)}
    out.append(Template("rows", {**sizes, "fetch": (0, 1)} if fetched else sizes, make_rows))
    return [*out, *_structural(kernel, target, threads, lanes)]


def _in_blocks(kernel: Kernel, inner: Template) -> Template:
    """A template of the same kernel without decided blocks; the sizes of these are parameters beside its own."""
    assert kernel.blocks is not None
    axes, allowed = kernel.blocks.axes, allowed_sizes(kernel)
    params = {f"block {a}": tuple(sorted({s[k] for s in allowed})) for k, a in enumerate(axes)}

    def make(p: Mapping[str, int]) -> Opts:
        sizes = tuple(p[f"block {a}"] for a in axes)
        return fitted(kernel, inner.make({k: v for k, v in p.items() if k not in params}), sizes)

    return Template(inner.name, {**inner.params, **params}, make)


def _structural(kernel: Kernel, target: Target, threads: int, lanes: int) -> list[Template]:
    """The templates of scatters with private copies, and of tiny axes in registers."""

    def of_copies(names: tuple[str, ...]) -> Template:
        numbers = {"chunks": (1, 2, 4, 8, 16, 32), "copies": (1, 2, 4, 8), "steps": (1, 2, 4, 8, 16)}
        return Template(f"copies of {', '.join(names)}", numbers, lambda p: scattered(kernel, lanes, names, p))

    def of_tiny(p: Mapping[str, int]) -> Opts:
        return beside(kernel, target, threads, p["vectors"] * lanes, bool(p["reduced"]))

    out = [of_copies(names) for names in alike(kernel)]
    return [*out, Template("tiny axes", {"vectors": (1, 2, 4, 8), "reduced": (0, 1)}, of_tiny)] if tiny_axes(kernel) else out


def contraction_template(kernel: Kernel, target: Target, threads: int, c: Contraction, first: Opts = ()) -> Template:
    """The template of a contraction of `kernel`, which the options `first` made of another one."""
    width, rows_ = extent(c.lane), max((extent(a) for a in c.rows), default=1)
    depth = max(extent(a) for a in c.reduce)
    params: dict[str, tuple[int, ...]] = {
        "mr": tuple(n for n in (1, 2, 4, 6, 8, 10, 12, 14, 16) if n <= max(1, rows_)),
        "nv": (1, 2, 3, 4, 6),
        "nb": tuple(n for n in (32, 64, 96, 128, 192, 256, 384, 512, 1024, 4096) if n < 2 * width) or (width,),
        "kc": (0, *(n for n in (64, 128, 192, 256, 384, 512, 1024) if n < depth)),
        "rows": (0, 1),
        "mc": tuple(n for n in (0, 48, 96, 192, 384) if n < max(1, rows_)),
        "pack": (0, 1),
        "pack_tall": (0, 1),
        "unroll": (1, 2, 4),
    }
    if fitting(target, c.nest, c.lane) is not None:
        params["tc"] = (0, 1)
    if c.wide.constant or c.tall.constant:
        params["once"] = (0, 1)

    def make(p: Mapping[str, int]) -> Opts:
        lanes = target.lanes(c.nest.expr.dtype)
        nr = p["nv"] * lanes
        sizes = {k: v for k, v in p.items() if k != "once"} | {"nb": max(nr, p["nb"] // nr * nr), "mc": p["mc"] // p["mr"] * p["mr"]}
        opts = (*first, *contraction(kernel, target, threads, c, Blocks(**sizes)))
        return packed_once(kernel, opts, target) if p.get("once") else opts

    return Template("operands" if first else "contraction", params, make)


def phased_templates(kernel: Kernel, target: Target, threads: int) -> list[Template]:
    """Of kernels that are better in several phases, a template for each phase: its numbers are open, the other phases have their quick
    start schedules."""
    out = []
    for first in (order_opts(kernel), *phases_first(kernel, target)):
        kernels = [p.kernel for p in apply(kernel, first, target).phases] if first else []
        each = [quick_starts(k, target, threads)[0] for k in kernels]
        for i, k in enumerate(kernels):
            inner = templates(k, target, threads)[0]

            def make(p: Mapping[str, int], first: Opts = first, i: int = i, inner: Template = inner, each: list[Opts] = each) -> Opts:
                return together(first, [*each[:i], inner.make(p), *each[i + 1 :]])

            out.append(Template(f"phase {i}: {inner.name}", inner.params, make))
    return out


def _volume(n: Nest) -> int:
    out = 1
    for a in n.all_axes:
        out *= extent(a)
    return out
