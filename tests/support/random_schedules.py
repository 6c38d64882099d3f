"""Random schedules of random shapes: how they are drawn, and how a failing one is made short. `checks` runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import odd_kernels
from tilewright import named_kernels, targets
from tilewright.heuristics import starts
from tilewright.ir import KernelError, OptError, sym
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.rewriter import with_constants
from tilewright.opts import Opts, apply, dumps, opt
from tilewright.opts.actions import proposals
from tilewright.opts.schedule import Scheduled
from tilewright.targets import Target

NAMES = (*named_kernels.NAMES, *odd_kernels.KERNELS)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 16, 17, 19, 23, 31, 32, 33, 37, 48, 64, 67)
SMALL = {"kh": 3, "kw": 3, "stride": 3, "pad": 1, "groups": 3, "b": 2, "h": 11}
FEW = {"pad": [0, 1], "causal": [0, 1], "w": [0, 3, 5], "shared": [1, 2]}
MOST_POINTS = 15_000
COPIES = (2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 64)
TARGETS = ("host", "avx2", "cascadelake", "znver5", "neon")
GROUPS = ("sm_80", "sm_90a", "opencl-gpu", "opencl-cpu")
"""Targets whose groups have threads."""
SYMBOLS: dict[str, tuple[str, ...]] = {
    "matmul": ("m", "n", "k"), "matmul_bias_gelu": ("m", "n"), "batched_matmul": ("b", "k"), "softmax": ("m", "n"), "log_softmax": ("m", "n"),
    "layernorm_stats": ("m", "n"), "rmsnorm": ("n",), "cross_entropy": ("m", "n"), "cumsum": ("n",), "argmax": ("n",), "embedding": ("v", "n"), "embedding_grad": ("n",),
    "conv2d": ("n",), "max_pool2d": ("n", "c"), "attention": ("s", "d"), "attention_dq": ("s",), "attention_dkv": ("s", "d"),
    "transpose": ("m", "n"), "matmul_nt": ("m", "n", "k"),
}  # fmt: skip
"""Sizes of named kernels that may be symbols."""
Choose = Callable[[int], int]
"""choose(n) gives a number below n."""


@dataclass(frozen=True)
class Case:
    """A schedule of one kernel for one target, to be run on some number of threads."""

    name: str
    dtype: str
    shape: Mapping[str, Any]
    kernel: Kernel = field(repr=False)
    target: Target = field(repr=False)
    opts: Opts
    vars: Mapping[str, int]
    threads: int = 1
    seed: int = 0

    def __str__(self) -> str:
        shape = ",".join(f"{k}={v}" for k, v in self.shape.items())
        symbols = "".join(f" with {k}={v}" for k, v in self.vars.items())
        constant = f":constant={','.join(found)}" if (found := [b.name for b in self.kernel.inputs if b.constant]) else ""
        return f"{self.name}{constant} {self.dtype} {shape}{symbols} for {self.target.name}, {self.threads} threads, inputs of seed {self.seed}:\n  {dumps(self.opts)}"


def draw(name: str, choose: Choose, host_only: bool = False, most: int = 8, among: Sequence[str] = TARGETS) -> Case:
    """A case of a named or odd kernel with up to `most` picks of options, for one of the targets `among`."""
    dtype, shape, vars, kernel = _odd(name, choose) if name in odd_kernels.KERNELS else _named(name, choose)
    target = pick_target(choose, host_only, among)
    if not target.groups and choose(3) == 0:  # what they keep packed is of no use to groups
        kernel = with_constants(kernel, [b.name for b in kernel.inputs])
    start: Opts = ()
    if choose(4) == 3 and (not target.groups or choose(4) == 3):  # (those of GPUs are many, and take their time)
        found = starts(kernel, target, 2)
        start = found[choose(len(found))]
    elif target.groups and choose(3):
        start = shared_axis(kernel, target, choose)
    picks = [choose(1 << 20) for _ in range(choose(most + 1))]
    return Case(
        name, dtype, shape, kernel, target, _once(kernel, target, grow(kernel, target, picks, start)), vars, 1 + choose(2), choose(1000)
    )


def _once(kernel: Kernel, target: Target, opts: Opts) -> Opts:
    """`opts`, and every constant input that still can be packed once."""
    for b in kernel.inputs if not target.groups else ():
        try:
            apply(kernel, (*opts, opt("STAGE", b.name, at="once")), target)
        except OptError:
            continue
        opts = (*opts, opt("STAGE", b.name, at="once"))
    return opts


def pick_target(choose: Choose, host_only: bool, among: Sequence[str] = TARGETS) -> Target:
    """The host, or another target; with `host_only` one whose code runs here."""
    name = among[choose(len(among))]
    host = targets.host()
    found = host if name == "host" else targets.named(name)
    return found if not host_only or (found.arch == host.arch and found.features <= host.features) else host


def _named(name: str, choose: Choose) -> tuple[str, Mapping[str, Any], Mapping[str, int], Kernel]:
    d = named_kernels.get(name)
    dtype = d.dtypes[choose(len(d.dtypes))]
    shape: dict[str, Any] = {}
    for size in d.shape_names:
        top = max(SMALL.get(size, 0), d.odd_shape[size] * 3 // 2)
        allowed = FEW[size] if size in FEW and (size != "w" or "causal" in d.shape_names) else [n for n in SIZES if n <= top]
        shape[size] = d.odd_shape[size] if choose(3) == 0 else allowed[choose(len(allowed))]
    if _make(name, shape, dtype) is None:
        shape = dict(d.odd_shape)
    vars = {}
    if name in SYMBOLS and choose(4) == 3:
        size = SYMBOLS[name][choose(len(SYMBOLS[name]))]
        vars = {size: shape[size]}
        shape[size] = sym(size, 1, shape[size] + (0, 1, 5000)[choose(3)])
    made = _make(name, shape, dtype)
    assert made is not None
    return dtype, shape, vars, made


def _make(name: str, shape: Mapping[str, Any], dtype: str) -> Kernel | None:
    """The kernel, or None where the sizes do not suit it or are too much to interpret."""
    try:
        kernel = named_kernels.make(name, dict(shape), dtype)
    except KernelError:
        return None
    points = 1
    for axes in [v.axes + v.reduce_axes for v in kernel.values.values()] + [s.axes for s in kernel.stores]:
        n = 1
        for a in axes:
            n *= a.arg.extent if isinstance(a.arg.extent, int) else 1
        points = max(points, n)
    return kernel if points <= MOST_POINTS else None


def _odd(name: str, choose: Choose) -> tuple[str, Mapping[str, Any], Mapping[str, int], Kernel]:
    make, usual = odd_kernels.KERNELS[name]
    sizes: list[Any] = []
    for n in usual:
        allowed = [z for z in SIZES if z <= n * 3 // 2]
        sizes.append(n if choose(3) == 0 else allowed[choose(len(allowed))])
    vars = {}
    symbolic = odd_kernels.SYMBOLIC.get(name, ())
    if symbolic and choose(4) == 3:
        at = symbolic[choose(len(symbolic))]
        zero = choose(4) == 3
        vars = {"s": 0 if zero else sizes[at]}
        sizes[at] = sym("s", 0 if zero else choose(2), sizes[at] + (0, 1, 5000)[choose(3)])
    return "", {str(i): n for i, n in enumerate(sizes)}, vars, make(*sizes)


# options ----------------------------------------------------------------------------------------------------------
def wild(s: Scheduled) -> list[Opts]:
    """What a search would hardly try: odd amounts, any loop before any other, everything staged everywhere."""
    out: list[Opts] = []
    names = sorted({a.arg.name for a in s.plans} | {a.arg.family for a in s.plans})
    for name in names:
        for n in COPIES:
            out += [(opt("UPCAST", name, n),), (opt("UNROLL", name, n),), (opt("TILE", name, n),), (opt("PADTO", name, n),)]
        out += [(opt("SPLIT", name, n),) for n in (2, 3, 5)]
        out.append((opt("PARALLEL", name),))
    loops = sorted({p.name for n in s.nests for p in s.loops(n)})
    out += [(opt("MOVE", a, before=b),) for a in loops for b in loops if a != b]
    things = [b.name for b in s.kernel.buffers] + [n for n, v in s.kernel.values.items() if isinstance(v.expr, Node)]
    for thing in things:
        for at in loops:
            out += [(opt("STAGE", thing, at=at),), (opt("STAGE", thing, at=at, order="row"),), (opt("STAGE", thing, at=at, pad=3),)]
        out.append((opt("CACHE", thing, policy="stream"),))
        if not s.target.groups:
            out += [
                (opt("STAGE", thing, at="once", pad=3),),
                (opt("CACHE", thing, policy="prefetch"),),
                (opt("OWN", thing, 3),),
                (opt("OWN", thing, 8),),
            ]
    out += [(opt("SWIZZLE", "grid", n),) for n in (2, 3, 4)]
    return out + (in_groups(s, names, things, loops) if s.target.groups else [])


def in_groups(s: Scheduled, names: Sequence[str], things: Sequence[str], loops: Sequence[str]) -> list[Opts]:
    """What only targets with groups of threads take."""
    out: list[Opts] = [(opt("GRID", "grid", threads=1),), (opt("GRID", "grid", registers=64),)]
    for name in names:
        out += [(opt("LOCAL", name, n),) for n in (2, 3, 5, 8, 16, 24, 32, 64)]
        out += [(opt("GROUP", name, n),) for n in (2, 4, 8, 16, 32, 64, 128)]
    for thing in things:
        for at in loops:
            out += [(opt("STAGE", thing, at=at, order=order, swizzle=w),) for order in ("row", "panel") for w in (2, 4, 8)]
    return out


def shared_axis(kernel: Kernel, target: Target, choose: Choose) -> Opts:
    """One axis shared among the threads of a group, so that most cases have threads; () where a few tries find none."""
    s = apply(kernel, (), target)
    names = sorted({a.arg.family for a in s.plans})
    for _ in range(4 if names else 0):
        o = opt(("LOCAL", "GROUP")[choose(2)], names[choose(len(names))], (2, 3, 4, 5, 8, 16, 32, 64)[choose(8)])
        try:
            apply(kernel, (o,), target)
        except OptError:
            continue
        return (o,)
    return ()


def grow(kernel: Kernel, target: Target, picks: Sequence[int], start: Opts = ()) -> Opts:
    """A legal list of options. Each pick appends the first legal one of a few actions (even) or wilder things (odd); which kind of
    option it is comes first, so that rare kinds are not drowned by those with many amounts."""
    opts: Opts = start
    now = apply(kernel, opts, target)
    for pick in picks:
        of = wild(now.phases[0] if now.phases else now) if pick % 2 else proposals(now)
        kinds: dict[tuple[str, ...], list[Opts]] = {}
        for more in of:
            kinds.setdefault(tuple(o.op for o in more), []).append(more)
        if not kinds:
            continue
        same = list(kinds.values())[pick // 2 % len(kinds)]
        at = pick // 2 // len(kinds)
        for i in range(min(len(same), 6)):
            more = same[(at + 7 * i) % len(same)]
            try:
                now = apply(kernel, (*opts, *more), target)
            except OptError:
                continue
            opts = (*opts, *more)
            break
    return opts


def shortest(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The case with options left out one by one, as long as it is legal and still fails."""
    for i in range(len(case.opts)):
        fewer = replace(case, opts=case.opts[:i] + case.opts[i + 1 :])
        try:
            apply(fewer.kernel, fewer.opts, fewer.target)
        except OptError:
            continue
        if fails(fewer):
            return shortest(fewer, fails)
    return case
