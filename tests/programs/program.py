"""A program as data: leaves (arrays), steps (operations on what is there), and which values are asked for. Values are numbered:
the leaves first, then one for each step. The text of a program in either language is made of its steps' texts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .operations.table import OPERATIONS

Params = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Leaf:
    """An array: `what` values it has (`leaves.values`), by `seed`."""

    what: str
    seed: int
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Step:
    """Operation `op` of the table on values, with its parameters."""

    op: str
    args: tuple[int, ...]
    params: Params = ()

    def text(self, language: str, **instead: str) -> str:
        """The step as an expression over v0, v1, …; `instead`: texts of parameters other than their values."""
        o = OPERATIONS[self.op]
        form = o.tw if language == "tw" else o.np
        names = {"abc"[i]: f"v{a}" for i, a in enumerate(self.args)}
        return form.format(**{**names, **dict(self.params), **instead})


@dataclass(frozen=True)
class Program:
    """`how`: options of the way it is computed in (`ways`), such as which values are differentiated."""

    leaves: tuple[Leaf, ...]
    steps: tuple[Step, ...]
    outs: tuple[int, ...]
    how: Params = ()

    @property
    def options(self) -> dict[str, Any]:
        return dict(self.how)

    def size(self) -> tuple[int, ...]:
        """What shrinking makes less."""
        plain = sum(leaf.dtype != "float32" for leaf in self.leaves), sum(leaf.what != "whole" for leaf in self.leaves)
        parameters = sum(len(repr(s.params)) for s in self.steps)
        return (
            len(self.steps),
            len(self.outs),
            len(self.leaves),
            len(self.how),
            sum(sum(leaf.shape) for leaf in self.leaves),
            *plain,
            parameters,
        )

    def function(self, language: str, name: str = "f", numbers: bool = False) -> str:
        """The text of a function of the leaves that returns a tuple of the outs. `numbers`: the Python numbers of steps are arguments
        behind the leaves, k of step i being k{i}."""
        given = [f"v{i}" for i in range(len(self.leaves))] + ([f"k{i}" for i in self.numbers()] if numbers else [])
        lines = [f"def {name}({', '.join(given)}):"]
        for i, s in enumerate(self.steps):
            instead = {"k": f"k{i}"} if numbers and i in self.numbers() else {}
            lines.append(f"    v{len(self.leaves) + i} = {s.text(language, **instead)}")
        return "\n".join([*lines, f"    return ({', '.join(f'v{o}' for o in self.outs)},)"])

    def numbers(self) -> dict[int, float]:
        """By step the Python number beside its array."""
        return {i: k for i, s in enumerate(self.steps) if "kind" in (d := dict(s.params)) and (k := d.get("k")) is not None}

    def live(self) -> Program:
        """Without the steps and leaves that no out needs."""
        first = len(self.leaves)
        needed = set(self.outs)
        for i in reversed(range(len(self.steps))):
            if first + i in needed:
                needed.update(self.steps[i].args)
        kept = [v for v in range(first + len(self.steps)) if v in needed]
        to = {v: i for i, v in enumerate(kept)}
        steps = tuple(replace(s, args=tuple(to[a] for a in s.args)) for i, s in enumerate(self.steps) if first + i in needed)
        leaves = tuple(leaf for i, leaf in enumerate(self.leaves) if i in needed)
        return replace(self, leaves=leaves, steps=steps, outs=tuple(to[o] for o in self.outs))
