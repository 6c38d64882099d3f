"""A tile kernel as it is written: cell after cell, step after step, in float64. Slow, and by another way than the kernel's own
evaluation: no loop is solved, no axis joined, no mask left out."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.body import COMBINES
from ..ir.buffer import Buffer, load_parts
from ..ir.checks.operand_ranges import OperandRange
from ..ir.errors import KernelError, VerifyError
from ..ir.evaluation import evaluate
from ..ir.evaluation.algebra import UFUNC, Algebra
from ..ir.evaluation.stores import unrounded
from ..ir.kernel import Kernel
from ..ir.node import Node, walk
from .trace import LoopTrace, TileStore, Trace

if TYPE_CHECKING:
    Array = np.ndarray[Any, Any]
_START = {"add": 0, "mul": 1, "max": -np.inf, "min": np.inf}


class _Cells:
    """Runs a trace on arrays."""

    def __init__(self, trace: Trace, inputs: Mapping[str, Array]) -> None:
        self.trace, self.algebra = trace, Algebra()
        self.inputs = {k: np.asarray(v) for k, v in inputs.items()}
        self.state: dict[str, Array] = {}
        self.outputs: dict[str, Array] = {}
        combines = {s.buffer.name: s.combine for s in _all_stores(trace.items)}
        for b in trace.buffers:
            if b.role == "out":
                kind = np.float64 if b.dtype.is_float else b.dtype.np
                how = combines[b.name]
                start = _START[how] if how in COMBINES else np.nan if b.dtype.is_float else 0
                if not b.dtype.is_float and not np.isfinite(start):
                    start = np.iinfo(kind).min if start < 0 else np.iinfo(kind).max
                self.outputs[b.name] = np.full(b.shape, start, kind)

    def run(self) -> dict[str, Array]:
        """The outputs by name."""
        grid = [s.axis for s in self.trace.steps.values() if s.grid]
        with np.errstate(all="ignore"):
            for cell in itertools.product(*(range(a.arg.extent) for a in grid)):
                self._items(self.trace.items, {a: np.array(n) for a, n in zip(grid, cell, strict=True)})
        return self.outputs

    def _items(self, items: list[LoopTrace | TileStore], env: dict[Node, Array]) -> None:
        for item in items:
            if isinstance(item, TileStore):
                self._store(item, env)
                continue
            for c in item.carried:
                self.state[c.before] = self._over(c.init, c.lanes, env)
            for k in range(item.step.axis.arg.extent):
                inside = {**env, item.step.axis: np.array(k)}
                self._items(item.items, inside)
                new = {c.before: self._over(c.update, c.lanes, inside) for c in item.carried if c.update is not None}
                self.state.update(new)
            for c in item.carried:
                self.state[c.after] = self.state[c.before]

    def _over(self, n: Node, lanes: tuple[Node, ...], env: dict[Node, Array]) -> Array:
        """An expression for every place of lanes, a dimension for each."""
        sizes = [a.arg.extent for a in lanes]
        grids = np.ogrid[tuple(slice(0, s) for s in sizes)] if sizes else []
        found = self.value(n, env | dict(zip(lanes, grids, strict=True)))
        return np.array(np.broadcast_to(found, sizes))

    def _store(self, s: TileStore, env: dict[Node, Array]) -> None:
        value = self._over(unrounded(s.value), s.lanes, env)
        at = [self._over(i, s.lanes, env) for i in s.indices]
        keep = np.ones(value.shape, bool) if s.mask is None else self._over(s.mask, s.lanes, env).astype(bool)
        out = self.outputs[s.buffer.name]
        picked = tuple(i[keep].astype(np.int64) for i in at)
        if not at:  # an output of one element
            out, picked = out.reshape(1), (np.zeros(np.count_nonzero(keep), np.int64),)
        for i, size in zip(picked, out.shape, strict=True):
            if i.size and (i.min() < 0 or i.max() >= size):
                raise KernelError(f"{self.trace.name} stores outside of {s.buffer.name}: at {int(i.min())} to {int(i.max())} of {size}")
        if s.combine is None:
            out[picked] = value[keep]
        else:
            UFUNC[s.combine].at(out, picked, value[keep].astype(out.dtype))

    # expressions ------------------------------------------------------------------------------------------------------
    def value(self, root: Node, env: dict[Node, Array]) -> Array:
        """An expression where axes are numbers, or arrays that are broadcast."""
        memo: dict[Node, Any] = {}
        for n in walk(root):
            v = [memo[s] for s in n.src]
            memo[n] = self._node(n, v, env)
        found: Array = memo[root]
        return found

    def _node(self, n: Node, v: list[Any], env: dict[Node, Array]) -> Any:
        if n.op == "axis":
            return env[n]
        if n.op == "const":
            return self.algebra.number(n.arg, n.dtype)
        if n.op == "load":
            return self._load(n, v)
        if n.op == "ref":
            return self._ref(n, v, env)
        if n.op == "sum":
            coefficients, c = n.arg
            return sum((k * x for k, x in zip(coefficients, v, strict=True)), start=np.array(c))
        if n.op in ("div", "mod") and n.dtype.is_int and len(v) == 1:
            return v[0] // n.arg if n.op == "div" else v[0] % n.arg
        if n.op == "prod":
            out = v[0]
            for x in v[1:]:
                out = out * x
            return out
        if n.op == "cast":
            return self.algebra.cast(v[0], n.src[0].dtype, n.dtype)
        if n.op == "where":
            return self.algebra.where(v[0], v[1], v[2], n.dtype)
        return self.algebra.unary(n.op, v[0], n.src[0].dtype) if len(v) == 1 else self.algebra.binary(n.op, v[0], v[1], n.src[0].dtype)

    def _load(self, n: Node, v: list[Any]) -> Array:
        buffer, indices, mask = load_parts(n)
        data = self.algebra.leaf(self.inputs[buffer.name], buffer.dtype)
        at = np.broadcast_arrays(*v[: len(indices)], *([v[-1]] if mask is not None else []))
        keep = at[-1].astype(bool) if mask is not None else np.True_
        out = []
        for i, size in zip(at[: len(indices)], data.shape, strict=True):
            wrong = ((i < 0) | (i >= size)) & keep
            if np.any(wrong):
                raise KernelError(f"{self.trace.name} reads outside of {buffer.name}: at {int(np.max(np.where(wrong, i, 0)))} of {size}")
            out.append(np.clip(i, 0, size - 1).astype(np.int64))
        return np.where(keep, data[tuple(out)], np.zeros((), data.dtype))

    def _ref(self, n: Node, v: list[Any], env: dict[Node, Array]) -> Array:
        r = self.trace.reductions.get(n.arg)
        if r is not None:
            count = len(r.over)
            inner = {a: np.asarray(x)[(..., *[None] * count)] for a, x in zip(r.axes, v, strict=True)}
            for k, a in enumerate(r.over):
                inner[a] = np.arange(a.arg.extent).reshape([-1 if d == k else 1 for d in range(count)])
            body = self.value(r.body, env | inner)
            shape = np.broadcast_shapes(body.shape, *(x.shape for x in inner.values()))
            found: Array = UFUNC[r.combine].reduce(np.broadcast_to(body, shape), axis=tuple(range(len(shape) - count, len(shape))))
            return found
        if n.arg in self.trace.aliases:
            lanes, node = self.trace.aliases[n.arg]
            return self.value(node, env | dict(zip(lanes, v, strict=True)))
        state = self.state[n.arg]
        return state[tuple(np.asarray(i).astype(np.int64) for i in np.broadcast_arrays(*v))] if v else state


def _all_stores(items: list[LoopTrace | TileStore]) -> list[TileStore]:
    return [s for i in items for s in ([i] if isinstance(i, TileStore) else _all_stores(i.items))]


def run(trace: Trace, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a trace by name, in float64, element after element as it is written. Raises KernelError for an access outside,
    and OutOfRangeError for an integer outside of the range that its input states."""
    for n, b in enumerate(trace.buffers):
        if b.role == "in" and b.whole_range is not None:
            low, high = b.whole_range
            OperandRange(n, b.name, low, high).check(trace.name, np.asarray(inputs[b.name]), high)
    return _Cells(trace, inputs).run()


def check(trace: Trace, made: Kernel, reference: Callable[..., Any] | None, seed: int) -> None:
    """See `TileKernel.check`: a trace as it is written against the kernel made of it, and what a user says that it computes."""
    inputs = {b.name: _random(np.random.default_rng((seed, k)), b) for k, b in enumerate(made.inputs)}
    written = run(trace, inputs)
    wanted: dict[str, Mapping[str, Any]] = {"the kernel's reference": evaluate(made, inputs)}
    if reference is not None:
        given = reference(dict(inputs))
        wanted["the given reference"] = given if isinstance(given, Mapping) else {made.outputs[0].name: given}
    for who, outputs in wanted.items():
        for name, x in outputs.items():
            if name not in written:
                raise VerifyError(f"{made.name}: {who} gives {name!r}, which is no output; they are {', '.join(written)}")
            _compare(made.name, name, who, written[name], np.asarray(x))


def _compare(kernel: str, name: str, who: str, written: Array, x: Array) -> None:
    if written.shape != x.shape:
        raise VerifyError(f"{kernel}: {name} has shape {list(written.shape)} as it is written, and {list(x.shape)} in {who}")
    a, b = written.astype(np.float64), x.astype(np.float64)
    far = ~np.isclose(
        a, b, rtol=1e-5, atol=1e-6 * max(1.0, float(np.nanmax(np.abs(np.where(np.isfinite(b), b, 0)), initial=0))), equal_nan=True
    )
    if far.any():
        at = tuple(int(i) for i in np.argwhere(far)[0])
        raise VerifyError(
            f"{kernel}: {name}{list(at)} is {a[at]!r} as it is written, and {b[at]!r} in {who} ({int(far.sum())} elements differ)"
        )


def _random(rng: np.random.Generator, b: Buffer) -> Array:
    """An input as test data has it: normal for floats, within the range where one is stated."""
    if b.dtype.is_float:
        shape = tuple(int(n) for n in b.shape)
        drawn = rng.standard_normal(shape) if b.range is None else rng.uniform(float(b.range[0]), float(b.range[1]), shape)
        return np.asarray(drawn).astype(b.dtype.np)
    info = np.iinfo(b.dtype.np)
    low, high = b.range or (max(info.min, -100), min(info.max, 100))
    found: Array = rng.integers(int(low), int(high) + 1, b.shape).astype(b.dtype.np)
    return found
