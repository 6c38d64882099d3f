"""Random graphs of tensors, each step computed by NumPy as well: floats in float64 with a bound on the error, integers exactly.

Most values are small whole numbers, on which float arithmetic is exact in any order: such results must be equal. What
is not exact carries a bound, and is never compared, rounded or cast to an integer. Leaves hold NaN and infinities too."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from graph_items import DTYPES, FLOATS, MOST, SIZES, GraphInMaking, Item, Unfit, broadcast
from tilewright import xp
from tilewright.plan import canonical_of
from tilewright.tensor import Tensor
from tilewright.tensor.fusion.call_list import KernelCall, call_list
from tilewright.tensor.ops.indexing import scatter_add


class Graphs(GraphInMaking):
    """Draws one graph. `steps`: operations; the same seed with fewer steps is the same graph's beginning."""

    def __init__(self, seed: int, steps: int, device: str = "cpu", special: bool = True) -> None:
        super().__init__(seed, device, special)
        for _ in range(steps):
            self.step()

    def step(self) -> None:
        """One operation that fits; an exception of the library is a failure."""
        for _ in range(20):
            how = self.one(STEPS)
            count = len(self.items)
            try:
                with np.errstate(all="ignore"):
                    how(self)
                return
            except Unfit:
                del self.items[count:]

    # elementwise --------------------------------------------------------------------------------------------------
    def arith(self) -> None:
        a = self.pick(lambda i: i.name != "bool")
        b = self.like(a)
        op = self.one(("add", "sub", "mul", "max", "min"))
        t = {"add": a.t + b.t, "sub": a.t - b.t, "mul": a.t * b.t, "max": a.t.maximum(b.t), "min": a.t.minimum(b.t)}[op]
        f = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[op]
        self.add(t, f(a.v, b.v), a.err * b.top + b.err * a.top + a.err * b.err if op == "mul" else a.err + b.err, op)

    def unary(self) -> None:
        a = self.pick(lambda i: i.name != "bool" and i.t.dtype.kind != "u")
        op = self.one(("neg", "abs", "relu", "square"))
        t = {"neg": -a.t, "abs": abs(a.t), "relu": a.t.maximum(0), "square": a.t * a.t}[op]
        f = {"neg": np.negative, "abs": np.abs, "relu": lambda x: np.maximum(x, x.dtype.type(0)), "square": np.square}[op]
        self.add(t, f(a.v), a.err * (2 * a.top + a.err if op == "square" else 1), op)

    def function(self) -> None:
        a = self.pick(lambda i: i.float)
        op = self.one(("tanh", "sin", "cos", "expm", "sqrt", "log1p", "div", "sigmoid"))
        x, v, eps = a.t, a.v, 16 * FLOATS[a.name]
        if op == "div":
            b = self.like(a)
            if b.err or np.any(np.abs(b.v) < 0.9):
                raise Unfit
            self.add(x / b.t, v / b.v, a.err + eps * a.top, op)
            return
        t = {"tanh": lambda: x.tanh(), "sin": lambda: x.sin(), "cos": lambda: x.cos(), "expm": lambda: (x.minimum(2.0)).exp(),
             "sqrt": lambda: (x * x + 1).sqrt(), "log1p": lambda: abs(x).log1p(), "sigmoid": lambda: x.sigmoid()}[op]()  # fmt: skip
        f = {"tanh": np.tanh, "sin": np.sin, "cos": np.cos, "expm": lambda u: np.exp(np.minimum(u, 2.0)), "log1p": lambda u: np.log1p(np.abs(u)),
             "sqrt": lambda u: np.sqrt(u * u + 1), "sigmoid": lambda u: 1 / (1 + np.exp(-u))}[op]  # fmt: skip
        self.add(t, f(v), a.err * 8 + eps * max(8.0, a.top), op)

    def compare(self) -> None:
        a = self.pick(lambda i: not i.err)
        b = self.like(a)
        if b.err:
            raise Unfit
        op = self.one(("lt", "le", "eq", "ne") if a.name != "bool" else ("eq", "ne"))
        t = {"lt": lambda: a.t < b.t, "le": lambda: a.t <= b.t, "eq": lambda: a.t == b.t, "ne": lambda: a.t != b.t}[op]()
        f = {"lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal}[op]
        self.add(t, f(a.v, b.v), 0.0, op)

    def bits(self) -> None:
        a = self.pick(lambda i: not i.float)
        b = self.like(a)
        op = self.one(("and", "or", "xor", "not") if a.name == "bool" else ("and", "or", "xor", "not", "shl", "floordiv", "mod"))
        if op in ("floordiv", "mod"):
            d = self.one((2, 3, 7))
            self.add(
                a.t // d if op == "floordiv" else a.t % d,
                (np.floor_divide if op == "floordiv" else np.remainder)(a.v, a.v.dtype.type(d)),
                0.0,
                op,
            )
            return
        t = {"and": lambda: a.t & b.t, "or": lambda: a.t | b.t, "xor": lambda: a.t ^ b.t, "not": lambda: ~a.t, "shl": lambda: a.t << 1}[
            op
        ]()
        f = {
            "and": np.bitwise_and,
            "or": np.bitwise_or,
            "xor": np.bitwise_xor,
            "not": lambda x, y: np.invert(x),
            "shl": lambda x, y: x << x.dtype.type(1),
        }[op]
        self.add(t, f(a.v, b.v), 0.0, op)

    def where(self) -> None:
        c = self.pick(lambda i: i.name == "bool")
        a = self.pick(lambda i: broadcast(c.v.shape, i.v.shape))
        b = self.like(a)
        if not broadcast(c.v.shape, a.v.shape, b.v.shape):
            raise Unfit
        self.add(c.t.where(a.t, b.t), np.where(c.v, a.v, b.v), max(a.err, b.err), "where")

    def cast(self) -> None:
        a = self.pick()
        to = str(self.one(DTYPES))
        if a.float and to not in FLOATS and (a.err or not np.all(np.abs(a.v) < 100) or (to[0] == "u" and not np.all(a.v >= 0))):
            raise Unfit
        v = a.v.astype(np.float64 if to in FLOATS else to)
        if to in FLOATS and not a.float and np.any(np.abs(a.v.astype(np.float64)) > 0.5 / FLOATS[to]):
            raise Unfit
        self.add(a.t.astype(to), v, a.err, f"cast {to}")

    # movement -----------------------------------------------------------------------------------------------------
    def move(self) -> None:
        a = self.pick()
        x, v = a.t, a.v
        op = self.one(("permute", "reshape", "slice", "pad", "expand", "concat", "flip", "newaxis", "roll"))
        d = self.n(v.ndim) if v.ndim else 0
        if op == "permute":
            order = [int(i) for i in self.rng.permutation(v.ndim)]
            self.add(x.permute(*order), v.transpose(order), a.err, op)
        elif op == "reshape":
            shape = self.factors(v.size)
            self.add(x.reshape(*shape), v.reshape(shape), a.err, op)
        elif op == "slice":
            key = tuple(self.slice(s) for s in v.shape)
            self.add(x[key], v[key], a.err, f"slice {key}")
        elif op == "pad":
            widths = [(self.n(3), self.n(3)) for _ in v.shape]
            self.add(x.pad(widths), np.pad(v, widths) if widths else v, a.err, op)
        elif op == "expand":
            shape = tuple(int(self.one(SIZES)) if s == 1 else s for s in v.shape)
            shape = (*(2 for _ in range(self.n(2))), *shape)
            if np.prod(shape) > MOST:
                raise Unfit
            self.add(x.expand(*shape), np.broadcast_to(v, shape), a.err, op)
        elif op == "concat" and v.ndim:
            b = self.pick(
                lambda i: (
                    i.name == a.name and i.v.ndim == v.ndim and all(p == q for e, (p, q) in enumerate(zip(i.v.shape, v.shape)) if e != d)
                )
            )
            self.add(xp.concat([x, b.t], axis=d), np.concatenate([v, b.v], d), max(a.err, b.err), op)
        elif op == "flip" and v.ndim:
            self.add(x.flip(axis=d), np.flip(v, d), a.err, op)
        elif op == "newaxis":
            self.add(x[None], v[None], a.err, op)
        elif op == "roll" and v.ndim:
            self.add(x.roll(2, axis=d), np.roll(v, 2, d), a.err, op)
        else:
            raise Unfit

    def slice(self, size: int) -> slice:
        step = int(self.one((1, 1, 2, 3, -1, -2)))
        low, high = sorted((self.n(size + 1), self.n(size + 1)))
        return slice(low, high, step) if step > 0 else slice(high, low - 1 if low else None, step)

    def factors(self, size: int) -> tuple[int, ...]:
        out, left = [], size
        while left > 1 and len(out) < 3:
            f = self.one([f for f in range(1, left + 1) if left % f == 0])
            out.append(f)
            left //= f
        return (*out, left) if left != 1 or not out else tuple(out)

    # reductions and products ----------------------------------------------------------------------------------------
    def reduce(self) -> None:
        a = self.pick(lambda i: i.v.ndim > 0)
        op = self.one(("sum", "max", "min", "mean", "cumsum", "argmax", "any", "softmax"))
        axes = tuple(sorted({self.n(a.v.ndim) for _ in range(1 + self.n(2))}))
        count = int(np.prod([a.v.shape[d] for d in axes]))
        keep, eps = bool(self.n(2)), FLOATS.get(a.name, 0.0)
        acc = max(eps, 2.0**-23) if eps else 0.0
        if op in ("max", "min", "argmax", "softmax", "mean") and not count:
            raise Unfit
        if op == "sum":
            self.add(a.t.sum(axes, keepdims=keep), np.sum(a.v, axis=axes, keepdims=keep), self._summed(a, count), op)
        elif op in ("max", "min") and a.name != "bool":
            f = getattr(np, op)
            self.add(getattr(a.t, op)(axes, keepdims=keep), f(a.v, axis=axes, keepdims=keep), a.err, op)
        elif op == "mean" and a.float:
            self.add(a.t.mean(axes, keepdims=keep), a.v.mean(axes, keepdims=keep), a.err + (count + 4) * acc * a.top, op)
        elif op == "cumsum":
            d, kind = axes[0], None if a.float else a.t.cumsum(axes[0]).dtype.np
            self.add(a.t.cumsum(d), np.cumsum(a.v, axis=d, dtype=kind), self._summed(a, a.v.shape[d]), op)
        elif op == "argmax" and not a.err and a.name != "bool":
            self.add(a.t.argmax(axes[0]), np.argmax(a.v, axis=axes[0]), 0.0, op)
        elif op == "any" and not a.err:
            self.add((a.t != 0).any(axes) if a.name != "bool" else a.t.any(axes), np.any(a.v, axis=axes), 0.0, op)
        elif op == "softmax" and a.float and a.top < 80:
            w = np.exp(a.v - a.v.max(axes[0], keepdims=True))
            self.add(a.t.softmax(axes[0]), w / w.sum(axes[0], keepdims=True), 4 * a.err + (count + 64) * eps, op)
        else:
            raise Unfit

    def _summed(self, a: Item, count: int) -> float:
        if not a.float or (not a.err and count * a.top <= 0.5 / FLOATS[a.name]):
            return 0.0
        return count * a.err + count * FLOATS[a.name] * max(1.0, a.top) * count

    def matmul(self) -> None:
        a = self.pick(lambda i: i.float and i.v.ndim >= 2)
        if self.n(3) == 0:
            b = Item(a.t.mT, a.v.swapaxes(-1, -2), a.err)
        else:
            fits = [i for i in self.items if i.name == a.name and i.v.ndim == 2 and i.v.shape[0] == a.v.shape[-1]]
            b = self.one(fits) if fits and self.n(2) else self.leaf((a.v.shape[-1], int(self.one(SIZES))), a.name)
        k = a.v.shape[-1]
        err = k * (a.err * b.top + b.err * a.top + a.err * b.err)
        if err or k * a.top * b.top > 0.5 / FLOATS[a.name]:
            err += k * k * FLOATS[a.name] * a.top * b.top
        self.add(a.t @ b.t, a.v @ b.v, err, "matmul")

    def indexed(self) -> None:
        a = self.pick(lambda i: i.v.ndim > 0)
        d = self.n(a.v.ndim)
        size = a.v.shape[d]
        if not size:
            raise Unfit
        at = self.rng.integers(0, size, 1 + self.n(6))
        index = Tensor(at, device=self.device)
        op = self.one(("take", "scatter", "put"))
        if op == "take":
            self.add(a.t.take(index, axis=d), np.take(a.v, at, d), a.err, op)
        elif op == "scatter" and a.name != "bool" and not a.err:
            rows = self.leaf((len(at), *a.v.shape[1:]), a.name)
            v, at0 = a.v.copy(), at % a.v.shape[0]
            np.add.at(v, at0, rows.v)
            self.add(Tensor.of(scatter_add(a.t.node, Tensor(at0, device=self.device).node, rows.t.node), self.device), v, 0.0, op)
        elif op == "put":
            t, v = Tensor.of(a.t.node, self.device), a.v.copy()
            key = tuple(self.slice(s) for s in a.v.shape)
            t[key], v[key] = 1, 1
            self.add(t, v, a.err, op)
        else:
            raise Unfit


STEPS: tuple[Callable[[Graphs], None], ...] = (
    Graphs.arith, Graphs.arith, Graphs.unary, Graphs.function, Graphs.compare, Graphs.bits, Graphs.where, Graphs.cast, Graphs.move,
    Graphs.move, Graphs.move, Graphs.reduce, Graphs.reduce, Graphs.matmul, Graphs.indexed,
)  # fmt: skip


def identity(seed: int) -> str:
    """What tells the kernels of a graph from those of others."""
    made = call_list([o.t.node for o in Graphs(seed, 12).outputs()])
    parts = [(canonical_of(c.kernel).identity if isinstance(c, KernelCall) else c.call.name, c.inputs, c.outputs) for c in made.calls]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]
