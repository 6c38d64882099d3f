"""Names of kernels, made of what they compute: `matmul+add+gelu`. Only for people: no key holds them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from ...ir.node import axes_of
from ..graph.nodes import TensorNode, constant_of, walk
from ..partition.heads import is_contraction

MOST = 5
"""Parts of a name; of longer ones the rest is counted."""
_REDUCE = {"add": "sum", "mul": "prod"}
_SILENT = frozenset({"lt", "le", "eq", "ne", "and", "or", "not"})
"""Operators that only make conditions."""
_THROUGH = frozenset({"view", "cast", "after"})


def inside(roots: Sequence[TensorNode], ends: Callable[[TensorNode], bool]) -> list[TensorNode]:
    """What one kernel computes, sources first. `roots`: what it stores; `ends`: whether a node's values come from memory
    where it is no root."""
    own = {id(r) for r in roots}

    def end(n: TensorNode) -> bool:
        return id(n) not in own and ends(n)

    return [n for n in walk(roots, end) if not end(n)]


def kernel_name(nodes: Sequence[TensorNode]) -> str:
    """A name for a kernel that computes `nodes` (sources first)."""
    parts = list(_Labels(nodes).parts())
    if [p for p in parts if p not in ("scale", "where", "add")] == ["matmul", "softmax", "matmul"]:
        return "attention"
    parts = [p for i, p in enumerate(parts) if i == 0 or p != parts[i - 1]]
    if not parts:
        return "cast" if any(n.op == "cast" and n.src[0].dtype is not n.dtype for n in nodes) else "copy"
    return "+".join(parts if len(parts) <= MOST else [*parts[: MOST - 1], f"{len(parts) - MOST + 1}more"])


class _Labels:
    """What to call each node of one kernel; nodes that are part of something with a name are covered by it."""

    def __init__(self, nodes: Sequence[TensorNode]) -> None:
        self.nodes = [n for n in nodes if n.op != "const"]
        self.own = {id(n) for n in nodes}
        self.readers: dict[int, list[TensorNode]] = {}
        for n in self.nodes:
            for s in n.src:
                self.readers.setdefault(id(s), []).append(n)
        self.named: dict[int, str] = {}
        self.covered: set[int] = set()

    def parts(self) -> Iterable[str]:
        """In order of computation."""
        for find in (self._contraction, self._softmax, self._normalised, self._gelu, self._mean):
            for n in self.nodes:
                if id(n) not in self.covered and id(n) not in self.named:
                    find(n)
        for n in self.nodes:
            label = self.named.get(id(n)) or ("" if id(n) in self.covered else _plain(n))
            if label:
                yield label

    def base(self, n: TensorNode) -> TensorNode:
        """What a node moves or converts."""
        while n.op in _THROUGH and id(n) in self.own:
            n = n.src[0]
        return n

    def used(self, n: TensorNode) -> list[TensorNode]:
        """What reads a node, through movement and conversion."""
        out: list[TensorNode] = []
        todo = [n]
        while todo:
            for r in self.readers.get(id(todo.pop()), ()):
                (todo if r.op in _THROUGH else out).append(r)
        return out

    def _name(self, n: TensorNode, label: str, covered: Iterable[TensorNode]) -> None:
        self.named[id(n)] = label
        self.covered |= {id(c) for c in covered}

    def _contraction(self, n: TensorNode) -> None:
        if is_contraction(n):
            product = self.base(n.src[0])
            windows = any(s.op == "view" and not s.arg.reshape and any(len(axes_of(i)) > 1 for i in s.arg.indices) for s in product.src)
            self._name(n, "conv" if windows else "matmul", [product])

    def _softmax(self, n: TensorNode) -> None:
        """exp(x − max x) and its sum, with the division (softmax) or the logarithm (log-sum-exp) behind."""
        if n.op != "reduce" or n.arg[0] != "add":
            return
        e = self.base(n.src[0])
        if not _is(e, "exp"):
            return
        around = [e]
        shifted = self.base(e.src[0])
        if _is(shifted, "sub"):
            top = self.base(shifted.src[1])
            if top.op == "reduce" and top.arg[0] == "max":
                around += [shifted, top]
        divisions = [r for r in self.used(n) if _is(r, "div") and self.base(r.src[1]) is n]
        logs = [r for r in self.used(n) if _is(r, "log")]
        for d in divisions:  # (e / Σ, or e · (1 / Σ))
            around += [d, *(r for r in self.used(d) if _is(r, "mul") and any(self.base(s) is e for s in r.src))]
        if divisions:
            self._name(n, "softmax", around)
        elif logs:
            sums = [r for g in logs for r in self.used(g) if _is(r, "add") and any(c.op == "reduce" for c in map(self.base, r.src))]
            self._name(n, "logsumexp", [*around, *logs, *sums])

    def _normalised(self, n: TensorNode) -> None:
        """x or x − its mean, divided by the root of its mean square."""
        if not _is(n, "sqrt"):
            return
        variance = self.base(n.src[0])
        around = [variance] if _is(variance, "add") else []
        mean = self._mean_of(self.base(variance.src[0]) if around else variance)
        square = self.base(mean[-1].src[0]) if mean else None
        if square is None or not _is(square, "mul") or self.base(square.src[0]) is not self.base(square.src[1]):
            return
        centred = self.base(square.src[0])
        around += [*mean, square]
        label = "rmsnorm"
        if _is(centred, "sub") and (first := self._mean_of(self.base(centred.src[1]))):
            label = "layernorm"
            around += [centred, *first]
        for d in self.used(n):
            if _is(d, "div"):
                around += [d, *(r for r in self.used(d) if _is(r, "mul") and any(self.base(s) is centred for s in r.src))]
        self._name(n, label, around)

    def _mean_of(self, n: TensorNode) -> list[TensorNode]:
        """[scaling, sum] where `n` is a mean, else nothing."""
        if _scaled(n):
            total = self.base(n.src[0])
            if total.op == "reduce" and total.arg[0] == "add" and not is_contraction(total):
                return [n, total]
        return []

    def _mean(self, n: TensorNode) -> None:
        found = self._mean_of(n)
        if found and id(found[1]) not in self.covered:
            self._name(n, "mean", found[1:])

    def _gelu(self, n: TensorNode) -> None:
        """x / 2 · (1 + erf(x / √2)), or with tanh of a polynomial."""
        if not (_is(n, "erf") or _is(n, "tanh")):
            return
        behind: list[TensorNode] = []
        reached = n
        while (use := self.used(reached)) and len(use) == 1 and (_is(use[0], "add") or _is(use[0], "mul")):
            reached = use[0]
            behind.append(reached)
            others = [s for s in map(self.base, reached.src) if constant_of(s) is None and s is not n and s not in behind]
            for x in others:
                scale = [x] if _scaled(x) else []
                down = self._down_to(self.base(n.src[0]), {id(x), *(id(self.base(s)) for c in scale for s in c.src)})
                if down is not None:
                    self._name(n, "gelu", [*behind, *scale, *down])
            if others:
                return

    def _down_to(self, start: TensorNode, goals: Collection[int]) -> list[TensorNode] | None:
        """The elementwise work between `start` and nodes of `goals`; None where it reads anything else."""
        found: list[TensorNode] = []
        todo = [start]
        while todo:
            m = todo.pop()
            if id(m) in goals or constant_of(m) is not None:
                continue
            if m.op != "elementwise" or id(m) not in self.own:
                return None
            found.append(m)
            todo += map(self.base, m.src)
        return found


def _is(n: TensorNode, op: str) -> bool:
    return n.op == "elementwise" and n.arg == op


def _scaled(n: TensorNode) -> bool:
    return (_is(n, "mul") or _is(n, "div")) and constant_of(n.src[1]) is not None


def _plain(n: TensorNode) -> str:
    if n.op == "reduce":
        return str(_REDUCE.get(n.arg[0], n.arg[0]))
    if n.op == "scan":
        return f"cum{_REDUCE.get(n.arg[0], n.arg[0])}"
    if n.op == "elementwise":
        if n.arg == "max" and any(constant_of(s) == 0 for s in n.src):
            return "relu"
        constant = any(constant_of(s) is not None for s in n.src)
        return "" if n.arg in _SILENT else "scale" if n.arg in ("mul", "div") and constant else str(n.arg)
    return (
        n.op
        if n.op in ("gather", "scatter")
        else str(n.arg.name)
        if n.op == "host"
        else str(n.arg.own.kernel.name)
        if n.op == "kernel"
        else ""
    )
