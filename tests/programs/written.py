"""A failing program as a file of its own, which needs nothing of the tests: it prints `right`, or ends with what is wrong."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from . import gradients, leaves, plain
from .program import Leaf, Program

HEAD = '''"""{what}

{message}
Found by a random program: python -m tests.programs --seed {seed} --only {number} --way {way}"""
import os
import sys

{small}import ml_dtypes
import numpy as np
import tilewright as tw
from tilewright import nn, xp


def put(x, key, value):
    y = xp.asarray(x, copy=True) if isinstance(x, tw.Tensor) else x.copy()
    y[key] = value
    return y


def cast(x, to):
    kind = {{"bfloat16": ml_dtypes.bfloat16}}.get(to, to)
    y = np.asarray(x).astype(kind)
    return y.astype(np.float64) if "float" in to else y


def number(k, kind):
    return cast(np.float64(k), kind) if "float" in kind else np.dtype(kind).type(k)


'''
CALL = {
    "eager": "got = f(*[tw.Tensor(np.asarray(x, k), dtype=t) for x, k, t in zip(given, kinds, types)])",
    "jit": "got = tw.jit(f)(*[tw.Tensor(np.asarray(x, k), dtype=t) for x, k, t in zip(given, kinds, types)])",
}


def text(program: Program, message: str, seed: int, number: int, engine: str) -> str:
    """The file's text."""
    way = str(program.options.get("way", "eager"))
    used = program.function("np", "right")
    parts = [
        HEAD.format(what=title(program), message=message, seed=seed, number=number, way=way, small='os.environ["TILEWRIGHT_SMALL"] = "0"\n')
    ]
    names = {n for n, f in vars(plain).items() if inspect.isfunction(f)}
    needed: list[str] = []

    def need(code: str) -> None:
        for n in re.findall(r"\b\w+\b", code):
            if n in names and n not in needed and n != "put":
                source = inspect.getsource(getattr(plain, n))
                needed.append(n)
                need(source.split("\n", 1)[1])

    need(used)
    parts += [inspect.getsource(getattr(plain, n)).replace(": Any", "").replace(" -> Any", "") + "\n\n" for n in sorted(needed)]
    parts += [
        program.function("tw"),
        "\n\n\n",
        used,
        "\n\n\n",
        inspect.getsource(leaves.values).replace(": Any", "").replace(" -> Any", ""),
        "\n\n",
    ]
    parts.append("given = [" + ", ".join(leaf_text(leaf) for leaf in program.leaves) + "]\n")
    types = ["int64" if leaf.what.startswith("below") else leaf.dtype for leaf in program.leaves]
    kinds = [f"np.{t}" if t not in ("bfloat16", "bool") else {"bfloat16": "ml_dtypes.bfloat16", "bool": "np.bool_"}[t] for t in types]
    parts.append(f"types, kinds = {types!r}, [{', '.join(kinds)}]\n")
    parts.append(
        GRAD.format(weights=inspect.getsource(gradients.weights).replace(": Any", "").replace(" -> Any", ""))
        if way == "grad"
        else PLAIN.format(call=call(program, way))
    )
    return "".join(parts)


def call(program: Program, way: str) -> str:
    if way == "vmap":
        axes = (0, *[None] * (len(program.leaves) - 1))
        return (
            "rows = [tw.Tensor(np.asarray(x, k), dtype=t) for x, k, t in zip(given, kinds, types)]\n"
            f"got = [o[0] for o in tw.vmap(f, in_axes={axes})(xp.stack([rows[0]] * 3), *rows[1:])]"
        )
    return CALL.get(way, CALL["eager"])


PLAIN = """
{call}
with np.errstate(all="ignore"):
    want = right(*given)
for i, (a, b) in enumerate(zip(got, want)):
    a, b = a.numpy().astype(np.float64), np.asarray(b).astype(np.float64)
    near = 2.0 ** -6 if got[i].dtype.name == "bfloat16" else 2.0 ** -9 if got[i].dtype.name == "float16" else 1e-5
    wrong = ~np.isclose(a, b, near, near * np.max(np.abs(b), initial=0.0, where=np.isfinite(b)), equal_nan=True)
    if wrong.any():
        sys.exit(f"result {{i}}: {{wrong.sum()}} of {{wrong.size}} elements are wrong, such as {{a[wrong][0]}} for {{b[wrong][0]}}")
print("right")
"""

GRAD = """

round_to = cast
cast = lambda x, to: np.asarray(x, np.float64) if "float" in to else round_to(x, to)  # differences need a smooth function

{weights}

def loss(*xs):
    outs = [o for o in f(*xs) if o.dtype.is_float]
    return sum((o * tw.Tensor(weights(o.shape).astype(np.float32)).astype(o.dtype)).sum().astype("float32") for o in outs)


def number_of(xs):
    with np.errstate(all="ignore"):
        return float(sum((o * weights(o.shape)).sum() for o in right(*xs) if o.dtype.kind == "f"))


at = [i for i, t in enumerate(types) if "float" in t]
rows = [tw.Tensor(np.asarray(x, k), dtype=t) for x, k, t in zip(given, kinds, types)]
grads = tw.grad(loss, tuple(at))(*rows)
for i, g in zip(at, grads if isinstance(grads, (list, tuple)) else [grads]):
    g = g.numpy().astype(np.float64)
    for place in np.ndindex(g.shape):
        sides = []
        for h in (1e-6, -1e-6):
            xs = [np.array(x, copy=True) for x in given]
            xs[i][place] += h
            sides.append(number_of(xs))
        want = (sides[0] - sides[1]) / 2e-6
        if not abs(g[place] - want) <= 1e-2 * (abs(want) + np.abs(g).max() + 1e-2):
            sys.exit(f"the gradient of argument {{i}} at {{place}} is {{g[place]}}, and differences say {{want}}")
print("right")
"""


def leaf_text(leaf: Leaf) -> str:
    if leaf.what.startswith("below"):
        return f"np.random.default_rng({leaf.seed}).integers(0, {max(1, int(leaf.what.split()[1]))}, {leaf.shape})"
    return f"values({leaf.what!r}, {leaf.seed}, {leaf.shape}, {leaf.dtype!r})"


def title(program: Program) -> str:
    way = str(program.options.get("way", "eager"))
    kinds = ", ".join(dict.fromkeys(leaf.dtype for leaf in program.leaves))
    return f"{way} of {'; '.join(s.text('tw') for s in program.steps)} ({kinds})"


def write(folder: Path, name: str, program: Program, message: str, seed: int, number: int, engine: str) -> Path:
    """Write the file into a folder, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.py"
    path.write_text(text(program, message, seed, number, engine))
    return path
