"""Kernels whose rows end within a vector: what idle lanes make NaN or infinite of, in sums, products, extremes, places, scans and stores.
A lowered Program of them is run natively and by the interpreter, and must agree in every bit."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import numpy as np
from hand_built import elementwise
from idle_lanes import built, draw, rounding, run_native, separate_rows
from tilewright.heuristics import starts
from tilewright.interp import Interpreter
from tilewright.interp import ops as interpreted
from tilewright.ir import KernelBuilder, OptError
from tilewright.ir.dtypes import DType, dtype
from tilewright.ir.functions import exp, log, power, rsqrt, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.ir.node import Node
from tilewright.ir.operators import cast, where
from tilewright.lower import lower
from tilewright.opts import Opts, apply, parse
from tilewright.opts.actions import proposals
from tilewright.renderers import render
from tilewright.targets import Target

ROWS = 3
Operation = Callable[[Node, Node], Node]
FLOATS: dict[str, Operation] = {
    "quotient": lambda x, y: x / y,
    "inverse": lambda x, y: 1.0 / x + y,
    "rest": lambda x, y: x % y,
    "floors": lambda x, y: x // y,
    "rsqrt": lambda x, y: rsqrt(x) * y,
    "root": lambda x, y: sqrt(x) / y,
    "log": lambda x, y: log(x) - y,
    "exp": lambda x, y: exp(x) * y,
    "power": power,
    "shares": lambda x, y: x / (x + y),
}
INTEGERS: dict[str, Operation] = {
    "quotient": lambda x, y: x // y,
    "rest": lambda x, y: x % y,
    "twice": lambda x, y: (x // y) % (x + y),
}


def operations(d: DType) -> dict[str, Operation]:
    """Operations whose idle lanes are dangerous."""
    return FLOATS if d.is_float else INTEGERS


def tails(d: DType, operation: str, n: int) -> Kernel:
    """Everything that is done with the results of an operation on rows of `n`."""
    kb = KernelBuilder(f"{operation} of {n} {d}")
    i, j = kb.axis("m", ROWS), kb.axis("n", n)
    x, y = (kb.input(name, (ROWS, n), d) for name in "xy")
    made = operations(d)[operation](x[i, j], y[i, j])
    for how in ("add", "mul", "max", "min"):
        found = kb.reduce(how, f"all {how}", (i,), j, made)  # type: ignore[arg-type]
        kb.store(f"all_{how}", found.dtype, (ROWS,), (i,), found[i])
    inside = kb.sum("inside", (i,), j, where((j >= 2) & (j < n - 3), made, 0))
    kb.store("inside_sum", inside.dtype, (ROWS,), (i,), inside[i])
    place = kb.argmax("place", (i,), j, made)
    kb.store("at", place.dtype, (ROWS,), (i,), place[i])
    prefix = kb.scan("add", "prefix", (i, j), j, made)
    kb.store("until", prefix.dtype, (ROWS, n), (i, j), prefix[i, j])
    kb.store("each", d, (ROWS, n), (i, j), cast(made, d))
    return kb.build()


def quotients(d: DType, n: int) -> Kernel:
    """Sums of rows of quotients, and nothing else."""
    kb = KernelBuilder(f"quotients of {n} {d}")
    i, j = kb.axis("m", ROWS), kb.axis("n", n)
    x, y = (kb.input(name, (ROWS, n), d) for name in "xy")
    found = kb.sum("all", (i,), j, x[i, j] / y[i, j])
    kb.store("all_quotients", found.dtype, (ROWS,), (i,), found[i])
    return kb.build()


def schedules(kernel: Kernel, target: Target, lanes: int, steps: int = 0) -> list[Opts]:
    """Vectors along rows, what is tried first, and so many random steps of a search from each of them."""
    rng, first = random.Random(f"{kernel.name} {target.name}"), [parse(f"Un{lanes}"), starts(kernel, target)[0]]
    out = [*first]
    for opts in first:
        done = 0
        while done < steps:
            wish = (*opts, *rng.choice(proposals(apply(kernel, opts, target))))
            with suppress(OptError):  # (not every proposal is legal)
                lower(apply(kernel, wish, target))
                out.append(opts := wish)
                done += 1
    return out


def differences(kernel: Kernel, opts: Opts, target: Target, seed: int, positive: bool = False) -> list[str]:
    """Which outputs a compiler and the interpreter do not agree on (any NaN equals any other). `positive`: of numbers from 1 to 2."""
    program = rounding(lower(apply(kernel, opts, target)), target.features)
    source = render(program, target)
    code, results = built(source), []
    for native in (True, False):
        arrays: list[Any] = []
        for k, p in enumerate(program.params):
            size = int(np.prod([int(extent) for extent in p.shape]))  # type: ignore[call-overload]
            if p.role == "out":
                arrays.append(np.full(size * p.dtype.size, 0xEE, np.uint8).view(p.dtype.np))
            elif positive:
                arrays.append(np.random.default_rng(seed + k).uniform(1, 2, size).astype(p.dtype.np))
            else:
                arrays.append(draw(p.dtype, size, seed + k))
        if native:
            run_native(code, source, arrays)
        else:
            with as_this_processor_guesses(target):
                Interpreter(program).run(arrays)
        results.append(arrays)
    code.close()
    found = []
    for p, got, want in zip(program.params, *results, strict=True):
        if p.role == "out":
            found += [f"{kernel.name}, {opts}: {row}" for row in separate_rows([p.name], got, want)]
    return found


@contextmanager
def as_this_processor_guesses(target: Target) -> Iterator[None]:
    """The interpreter's `root_guess` is this processor's, of which only the first bits are said."""
    program = elementwise(["float32"], "float32", 4, 4, lambda b, x: b.op("root_guess", x)) if target.arch == "x86_64" else None
    if program is None:
        yield
        return
    source = render(program, target)
    code = built(source)

    def guess(a: Any) -> Any:
        flat = np.atleast_1d(np.asarray(a, np.float32)).reshape(-1)
        out = np.empty(len(flat) + -len(flat) % 4, np.float32)
        for at in range(0, len(out), 4):
            four = np.ones(4, np.float32)
            four[: len(flat) - at] = flat[at : at + 4]
            run_native(code, source, [four, part := np.empty(4, np.float32)])
            out[at : at + 4] = part
        return out[: len(flat)].reshape(np.shape(a))[()]

    with patch.object(interpreted, "root_guess", guess):
        yield
    code.close()


TYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")


def types() -> list[DType]:
    """Element types with operations that idle lanes are dangerous for."""
    return [dtype(name) for name in TYPES]
