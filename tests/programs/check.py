"""One program, computed in one way and compared with what is right: '' or a sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tilewright as tw

from . import gradients, nodes, oracle, shrink, ways
from .program import Program

Got = tuple[list[Any], list[str]]
"""Arrays and the names of their types."""


class Refused(Exception):
    """The library said that it does not do this, with one of its errors of usage."""


def check(program: Program, engine: str = "evaluate") -> str:
    """What is wrong with a program; '' where nothing is. `engine`: evaluate (no kernel is compiled), native, or neon (by
    qemu). Raises Refused."""
    found = _checked(program, engine)
    if found and engine == "evaluate" and any(leaf.what == "special" for leaf in program.leaves):
        # the reference takes factors out of sums, where an infinity times a sum of zeros is another thing than zeros of infinities
        return _checked(program, "native")
    return found


def _checked(program: Program, engine: str) -> str:
    how = str(program.options.get("way", "eager"))
    try:
        return WAYS[how](program, engine)
    except tw.UsageError as e:
        raise Refused(str(e)) from e
    except IndexError as e:
        if how != "symbols":
            return f"IndexError: {e}"
        raise Refused(str(e)) from e  # a mask of a fixed shape on an array of a symbolic one
    except gradients.NothingToDifferentiate:
        return ""
    except Exception as e:
        return f"{type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"


def agree(right: Callable[[int, float, int], list[oracle.Expected]], got: Got) -> str:
    """A look with few runs, and one with many and more noise where that finds something."""
    for runs, scale, seed in ((oracle.FEW, 1.0, 0), (oracle.MANY, 3.0, 1)):
        expected = right(runs, scale, seed)
        found = [f"result {i}: {m}" for i, (e, x, t) in enumerate(zip(expected, *got, strict=True)) if (m := oracle.difference(e, x, t))]
        if not found:
            return ""
    return found[0]


def by_numpy(program: Program) -> Callable[[int, float, int], list[oracle.Expected]]:
    """What is right, as a function of runs."""
    f, arrays = oracle.compiled(program), [oracle.array(leaf) for leaf in program.leaves]
    return lambda runs, scale, seed: oracle.results(f, arrays, runs, scale, seed)


def tensors(program: Program) -> list[Any]:
    return [ways.tensor(leaf) for leaf in program.leaves]


def computed(outs: Any, engine: str) -> Got:
    types = [o.dtype.name for o in outs]
    if engine == "native":
        return ways.native(outs), types
    return ways.evaluated([o.node for o in outs], ways.by_qemu if engine == "neon" else ways.evaluate), types


def of_arrays(outs: Any) -> Got:
    return [o.numpy() for o in outs], [o.dtype.name for o in outs]


# ways --------------------------------------------------------------------------------------------------------------
def eager(program: Program, engine: str) -> str:
    return agree(by_numpy(program), computed(ways.compiled(program)(*tensors(program)), engine))


def jit(program: Program, engine: str) -> str:
    f, given = ways.compiled(program), tensors(program)
    with ways.computing(engine):
        g = tw.jit(f)
        first, again = of_arrays(g(*given)), of_arrays(g(*given))
    if not all(np.array_equal(a.astype(np.float64), b.astype(np.float64), equal_nan=True) for a, b in zip(first[0], again[0])):
        return "a second call of the captured function gives other results"
    return agree(by_numpy(program), again)


def grad(program: Program, engine: str) -> str:
    """Gradients: fused against node by node, and the graph against differences."""
    wrong = gradients.differ(program)
    if wrong:
        return wrong
    outs = gradients.graph(program)
    flat = [o.node for o in outs]
    right: Callable[[int, float, int], list[oracle.Expected]] = lambda runs, scale, seed: nodes.results(flat, runs, scale, seed)  # noqa: E731
    known = {(runs, scale, seed): right(runs, scale, seed) for runs, scale, seed in ((oracle.FEW, 1.0, 0),)}
    arrays, types = computed([tw.Tensor.of(n, "cpu") for n in flat], engine)
    return agree(lambda *r: known[r] if r in known else right_again(program, r), (arrays, types))


def right_again(program: Program, r: Any) -> list[oracle.Expected]:
    """A graph that was computed has its results as leaves: it is made anew."""
    return nodes.results([o.node for o in gradients.graph(program)], *r)


def vmap(program: Program, engine: str) -> str:
    """The program for each of several values of its first leaf."""
    size = int(program.options.get("batch", 3))
    f, arrays = oracle.compiled(program), [oracle.array(leaf) for leaf in program.leaves]
    first = [oracle.array(leaf) for leaf in batch(program, size)]

    def right(runs: int, scale: float, seed: int) -> list[oracle.Expected]:
        return oracle.results(lambda *rows: tuple(np.stack(xs) for xs in zip(*(f(r, *arrays[1:]) for r in rows))), first, runs, scale, seed)

    given = tensors(program)
    stacked = tw.xp.stack([ways.tensor(leaf) for leaf in batch(program, size)]).realise()
    mapped = tw.vmap(ways.compiled(program), in_axes=(0, *[None] * (len(given) - 1)))
    return agree(right, computed(mapped(stacked, *given[1:]), engine))


def batch(program: Program, size: int) -> list[Any]:
    return [replace(program.leaves[0], seed=program.leaves[0].seed + i) for i in range(size)]


def numbers(program: Program, engine: str) -> str:
    """Python numbers as arguments of a captured function, which change between its calls."""
    found = program.numbers()
    if not found:
        return jit(program, engine)
    f, given, ks = ways.compiled(program, numbers=True), tensors(program), list(found.values())
    with ways.computing(engine):
        g = tw.jit(f)
        g(*given, *[k + 1 for k in ks])
        return agree(by_numpy(program), of_arrays(g(*given, *ks)))


def symbols(program: Program, engine: str) -> str:
    """The first size of the first leaf as a symbol, called with that size and with a smaller one."""
    n = program.leaves[0].shape[0] if program.leaves[0].shape else 0
    places = [i for i, leaf in enumerate(program.leaves) if leaf.shape and leaf.shape[0] == n]
    if n < 2:
        return jit(program, engine)
    size = tw.Var("n", 1, n + 3)
    f, named = ways.compiled(program), {f"v{i}": {0: size} for i in places}
    g = tw.jit(f, symbols=named)
    for m in (n, n - 1):
        there = replace(
            program, leaves=tuple(replace(x, shape=(m, *x.shape[1:])) if i in places else x for i, x in enumerate(program.leaves))
        )
        if not shrink.means_something(there):
            continue
        with ways.computing(engine):
            got = of_arrays(g(*tensors(there)))
        found = agree(by_numpy(there), got)
        if found:
            return f"{found} where n is {m}"
    return ""


def state(program: Program, engine: str) -> str:
    """The first result is added to a tensor from outside at each of two calls, which the other results do not see."""
    f, given = ways.compiled(program), tensors(program)
    first = f(*given)[0]
    if not first.dtype.is_float or engine == "evaluate":
        return jit(program, engine)
    kept = tw.Tensor(np.zeros(first.shape, np.float32)).astype(first.dtype).realise()

    def step(*args: Any) -> Any:
        outs = f(*args)
        kept.assign(kept + outs[0])
        return outs

    with ways.computing(engine):
        g = tw.jit(step)
        g(*given)
        kept.assign(tw.xp.zeros_like(kept))
        got = of_arrays(g(*given))
        wrong = agree(by_numpy(program), got)
        rest = agree(lambda *r: by_numpy(replace(program, outs=program.outs[:1]))(*r), of_arrays([kept]))
    return wrong or (rest and f"the tensor that is updated: {rest}")


WAYS: dict[str, Callable[[Program, str], str]] = {
    "eager": eager, "jit": jit, "grad": grad, "vmap": vmap, "numbers": numbers, "symbols": symbols, "state": state,
}  # fmt: skip
