"""Convolutions, transposed and ordinary, of one to three dimensions beside eager PyTorch: our start schedules, forward and gradients.

    python benchmarks/conv_vs.py [--only NAME ...] [--threads 1 2] [--rounds 7] [--what forward gradients] [--show]

Both run in this process, in turns: bursts of calls of at least `BURST` seconds, of which the median counts, after `PAUSE` seconds in
which the other's threads go to sleep. `ratio` is the median over rounds of PyTorch's time over ours: above 1 ours is faster. Nothing is
tuned: the cache and the store of compiled code are empty. `gradients` are those of input and weight for a given gradient of the
result, without the forward pass. `error`: the largest difference from PyTorch in float64, over the largest element. `first_seconds`: the
first call, with graph, schedules, code and loading; `kernels`: how many a call runs."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

BURST = 0.02
MOST = 400
PAUSE = 0.06


@dataclass(frozen=True)
class Convolution:
    """x (batch, channels, *space) and weights of `outs` channels; numbers as PyTorch names them."""

    name: str
    batch: int
    channels: int
    outs: int
    space: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    output_padding: tuple[int, ...] | None = None
    groups: int = 1

    @property
    def transposed(self) -> bool:
        """Whether it is a transposed convolution."""
        return self.output_padding is not None


def form(
    name: str, sizes: tuple[int, int, int], space: tuple[int, ...], kernel: Any, stride: Any = 1, padding: Any = 0, **more: Any
) -> Convolution:
    """A form; a number stands for all dimensions."""
    n = len(space)

    def spread(v: Any) -> tuple[int, ...]:
        return (v,) * n if isinstance(v, int) else tuple(v)

    extra = spread(more.get("extra", 0)) if name.startswith("transposed") else None
    numbers = (spread(v) for v in (kernel, stride, padding, more.get("dilation", 1)))
    return Convolution(name, *sizes, space, *numbers, extra, more.get("groups", 1))


def resnet50(batch: int) -> list[Convolution]:
    """The distinct convolutions of ResNet-50, in their order."""
    found, channels, size = [form(f"resnet-50 batch {batch} k7 s2 224", (batch, 3, 64), (224, 224), 7, 2, 3)], 64, 56
    for width in (64, 128, 256, 512):
        stride, outs = 1 if width == 64 else 2, 4 * width
        last = size // stride
        layers = [(channels, width, size, 1, 1), (width, width, size, 3, stride), (channels, outs, size, 1, stride)]
        layers += [(width, outs, last, 1, 1), (outs, width, last, 1, 1), (width, width, last, 3, 1)]
        for c, n, at, k, step in dict.fromkeys(layers):
            found.append(form(f"resnet-50 batch {batch} {c}-{n} k{k} s{step} {at}", (batch, c, n), (at, at), k, step, k // 2))
        channels, size = outs, last
    return found


FORMS = (
    form("transposed 1d k5", (4, 64, 64), (1000,), 5, 1, 2),
    form("transposed 1d k4 s2", (2, 128, 64), (500,), 4, 2, 1),
    form("transposed 1d k7 s3 g4", (4, 64, 64), (333,), 7, 3, 2, extra=1, groups=4),
    form("transposed 1d k3 s2 d3", (4, 48, 64), (251,), 3, 2, 1, dilation=3),
    form("transposed 2d k3", (1, 64, 64), (28, 28), 3, 1, 1),
    form("transposed 2d k3 d2", (2, 32, 32), (30, 30), 3, 1, 2, dilation=2),
    form("transposed 2d k2 s2", (1, 128, 64), (28, 28), 2, 2),
    form("transposed 2d k4 s2", (4, 128, 64), (16, 16), 4, 2, 1),
    form("transposed 2d k3 s2", (1, 64, 64), (28, 28), 3, 2, 1, extra=1),
    form("transposed 2d k3 s2 d2", (2, 32, 32), (29, 29), 3, 2, 2, dilation=2),
    form("transposed 2d k5 s3", (2, 32, 48), (19, 21), 5, 3, 2, extra=1),
    form("transposed 2d k3x5 s2x1 g2", (2, 32, 32), (24, 40), (3, 5), (2, 1), (1, 2), extra=(1, 0), groups=2),
    form("transposed 2d depthwise k4 s2", (2, 64, 64), (32, 32), 4, 2, 1, groups=64),
    form("transposed 3d k2 s2", (1, 32, 16), (8, 14, 14), 2, 2),
    form("transposed 3d k3 s2 d2", (1, 16, 16), (8, 16, 16), 3, 2, 1, dilation=2, extra=1),
    form("transposed 3d k3 s3", (1, 16, 24), (7, 9, 11), 3, 3, 0),
    form("transposed 3d k3x5x3 s1x2x2 g4", (2, 16, 32), (6, 10, 13), (3, 5, 3), (1, 2, 2), (1, 2, 1), extra=(0, 1, 1), groups=4),
    form("2d k3 s2", (1, 64, 64), (56, 56), 3, 2, 1),
    form("2d k3x5 g4", (2, 64, 64), (28, 30), (3, 5), 1, (1, 2), groups=4),
    form("2d k7 s2", (1, 3, 64), (112, 112), 7, 2, 3),
    form("2d k1 28", (1, 512, 128), (28, 28), 1),
    form("2d k1 14 batch 8", (8, 1024, 256), (14, 14), 1),
    form("2d k1 7 batch 8", (8, 512, 2048), (7, 7), 1),
    form("2d k3 56", (1, 64, 64), (56, 56), 3, 1, 1),
    form("2d k3 14", (1, 256, 256), (14, 14), 3, 1, 1),
    form("2d k3 7", (1, 512, 512), (7, 7), 3, 1, 1),
    form("2d k3 56 s2", (1, 128, 128), (56, 56), 3, 2, 1),
    form("2d k3 28 batch 8", (8, 128, 128), (28, 28), 3, 1, 1),
    form("2d k3 14 batch 8", (8, 256, 256), (14, 14), 3, 1, 1),
    form("2d k3 7 batch 8", (8, 512, 512), (7, 7), 3, 1, 1),
    form("2d k3 ragged 12x10", (2, 24, 32), (12, 10), 3, 1, 1),
    form("2d k5x3 ragged 17x13", (2, 20, 40), (17, 13), (5, 3), 1, (2, 1)),
    form("3d k3", (1, 16, 32), (8, 20, 20), 3, 1, 1),
    form("3d k3x5x7", (1, 16, 16), (8, 16, 18), (3, 5, 7), 1, (1, 2, 3)),
    form("3d k3x5x7 g4", (1, 32, 32), (8, 16, 18), (3, 5, 7), 1, (1, 2, 3), groups=4),
    form("3d k5x3x3 s2", (2, 12, 20), (11, 17, 19), (5, 3, 3), 2, (2, 1, 1)),
    *resnet50(1),
    *resnet50(8),
)
"""Seventeen transposed ones, and ordinary ones: batches, ragged images, strides, groups, odd windows, and all of ResNet-50's."""

Call = Callable[[], Any]


def calls(f: Convolution, what: str, threads: int, cache: str, show: bool) -> tuple[Call, Call, dict[str, Any]]:
    """(ours, PyTorch's, what is told of ours)."""
    import numpy as np
    import tilewright as tw
    import torch
    from tilewright.tensor import Tensor, nn, vjp

    n, rng = len(f.space), np.random.default_rng(0)
    x = rng.standard_normal((f.batch, f.channels, *f.space), np.float32)
    lead = (f.channels, f.outs // f.groups) if f.transposed else (f.outs, f.channels // f.groups)
    w = (rng.standard_normal((*lead, *f.kernel), np.float32) / np.float32(8)).astype(np.float32)
    how: dict[str, Any] = {"stride": f.stride, "padding": f.padding, "dilation": f.dilation, "groups": f.groups}
    how |= {"output_padding": f.output_padding} if f.transposed else {}
    theirs_of = getattr(torch.nn.functional, f"conv{'_transpose' if f.transposed else ''}{n}d")

    def ours_of(x: Any, w: Any) -> Any:
        return (nn.conv_transpose if f.transposed else nn.conv)(x, w, **how)

    tx, tw_ = torch.from_numpy(x), torch.from_numpy(w)
    exact = [t.double().requires_grad_() for t in (tx, tw_)]
    y = theirs_of(*exact, **how)
    ox, ow = Tensor(x), Tensor(w)
    if what == "forward":
        made = tw.jit(ours_of, threads=threads, cache=cache)
        given, wanted = (ox, ow), [y.detach()]
        theirs: Call = torch.no_grad()(lambda: theirs_of(tx, tw_, **how))
    else:
        dy = rng.standard_normal(tuple(y.shape), np.float32)
        made = tw.jit(lambda x, w, dy: vjp(ours_of, x, w)[1](dy), threads=threads, cache=cache)
        given, wanted = (ox, ow, Tensor(dy)), list(torch.autograd.grad(y, exact, torch.from_numpy(dy).double()))
        bias, dyt = None, torch.from_numpy(dy)
        rest = (f.stride, f.padding, f.dilation, f.transposed, f.output_padding or (0,) * n, f.groups, [True, True, False])
        theirs = torch.no_grad()(lambda: torch.ops.aten.convolution_backward(dyt, tx, tw_, bias, *rest))
    begin = time.perf_counter()
    first = made(*given)
    first = first if isinstance(first, tuple | list) else [first]
    told: dict[str, Any] = {"first_seconds": round(time.perf_counter() - begin, 3)}
    off = (float(np.abs(a.numpy() - b.numpy()).max() / np.abs(b.numpy()).max()) for a, b in zip(first, wanted, strict=True))
    told |= {"error": float(f"{max(off):.2g}"), "kernels": int(made.report().partition(": ")[2].split()[0])}
    if show:
        print(made.report())
    return lambda: made(*given), theirs, told


def burst(call: Call) -> float:
    """The median time of a call, in seconds."""
    time.sleep(PAUSE)
    for _ in range(2):
        call()
    times: list[float] = []
    end = time.perf_counter() + BURST
    while len(times) < 5 or (time.perf_counter() < end and len(times) < MOST):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def main() -> None:
    """Print a JSON line for each form, number of threads and direction."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", nargs="+", default=[], help="parts of names")
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--what", nargs="+", choices=("forward", "gradients"), default=["forward", "gradients"])
    p.add_argument("--show", action="store_true", help="the schedules, too")
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        import torch

        for f in FORMS:
            if args.only and not any(o in f.name for o in args.only):
                continue
            for threads in args.threads:
                torch.set_num_threads(threads)
                for what in args.what:
                    ours, theirs, told = calls(f, what, threads, f"{folder}/cache.db", args.show)
                    ours(), theirs()
                    pairs = [(burst(ours), burst(theirs)) for _ in range(args.rounds)]
                    row = {"form": f.name, "what": what, "threads": threads}
                    row |= {"ratio": round(statistics.median(b / a for a, b in pairs), 3)}
                    row |= {k: round(statistics.median(p[i] for p in pairs) * 1e3, 4) for i, k in enumerate(("ms", "torch_ms"))}
                    print(json.dumps(row | told), flush=True)


if __name__ == "__main__":
    main()
