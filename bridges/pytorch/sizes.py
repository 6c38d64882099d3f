"""Symbolic sizes of PyTorch's graphs: as sizes of ours, and their values at a call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import reduce
from typing import Any

import numpy as np
import torch
import torch.fx as fx
from torch.utils._sympy.functions import CleanDiv, FloorDiv, FloorToInt, Max, Mod, PythonMod, ToFloat, TruncToInt

from ... import xp
from ...ir import index as ix
from ...ir.node import Node
from ...tensor import Tensor, Var
from ...tensor.graph.symbolic_sizes import concrete, number
from .layout import ArrayLayout

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Add": operator.add,
    "Mul": operator.mul,
    "Pow": operator.pow,
    "PowByNatural": operator.pow,
    "FloatPow": operator.pow,
    "IntTrueDiv": operator.truediv,
    "FloatTrueDiv": operator.truediv,
    "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv,
    "ToFloat": lambda x: x,
    "OpaqueUnaryFn_sqrt": lambda x: x.sqrt(),
}
"""What sizes become numbers by, by the names of PyTorch's (and sympy's) functions."""


class NoSymbol(Exception):
    """A graph that is not compiled for symbols: one of its sizes, or an operator of ours, needs values."""


MOST_TRIED, MOST_FACTOR = 1 << 20, 1 << 12
"""Below these, a size times a number is tried at every value that the size can have."""


ROOM = 4
"""How many times a size may double before a graph is compiled again; several sizes share that, since intermediate results lie where the
largest would."""


LEAST = 64
"""What every range reaches, where PyTorch's guards allow it."""


class SizeReader:
    """Reads the symbols of a graph off its arguments. `symbols`: PyTorch's, in order. Raises NoSymbol where no argument says what one is."""

    def __init__(self, inputs: Sequence[fx.Node]) -> None:
        found: dict[Any, tuple[int, int | None]] = {}
        wanted: set[Any] = set()
        for i, node in enumerate(inputs):
            value = node.meta.get("val")
            for dim, n in [(None, value)] if isinstance(value, torch.SymInt) else enumerate(getattr(value, "shape", ())):
                if isinstance(n, torch.SymInt):
                    wanted |= n.node.expr.free_symbols
                    if n.node.expr.is_Symbol and (dim is None or n.node.expr not in found):
                        found[n.node.expr] = (i, dim)
        if unknown := sorted(map(str, wanted - set(found))):
            raise NoSymbol(f"no argument says what {unknown[0]} is")
        self.symbols = tuple(found)
        self._numbers = [(k, i) for k, (i, dim) in enumerate(found.values()) if dim is None]
        self._places = list(found.values())

    def read(self, arguments: Sequence[Any]) -> tuple[int, ...]:
        """The values of the symbols."""
        return tuple([int(arguments[i]) if dim is None else arguments[i].shape[dim] for i, dim in self._places])


class KnownSymbols:
    """PyTorch's symbols as sizes of ours (`vars`), and what is computed of them. `lacking`: what is raised for arithmetic that we lack."""

    lacking: type[Exception] = NotImplementedError

    def __init__(self, symbols: Mapping[Any, int]) -> None:
        self.vars: dict[Any, int] = dict(symbols)
        self._known: dict[Any, int] = {}

    def size(self, n: int | torch.SymInt) -> int:
        """A size of PyTorch's as one of ours. Raises NotImplementedError for one that data decides, and `lacking`."""
        if not isinstance(n, torch.SymInt):
            return n
        expr = n.node.expr
        if expr not in self._known:
            self._known[expr] = self._converted(expr)
        return self._known[expr]

    def _converted(self, e: Any) -> Any:
        if e.is_Integer:
            return int(e)
        if e in self.vars:
            return self.vars[e]
        if e.is_Symbol:
            raise NotImplementedError("a size that data decides")
        if isinstance(e, (FloorToInt, TruncToInt)):
            return self._floored(e.args[0])
        parts = [self._converted(a) for a in e.args]
        if e.is_Add:
            return reduce(operator.add, parts)
        if e.is_Mul or (e.is_Pow and type(parts[1]) is int and parts[1] > 0):
            return reduce(operator.mul, parts if e.is_Mul else parts[:1] * parts[1])
        if isinstance(e, (FloorDiv, CleanDiv)):
            return parts[0] // parts[1]
        if isinstance(e, (Mod, PythonMod)):
            return parts[0] % parts[1]
        if isinstance(e, Max):
            largest = [p for p in parts if all(ix.bounds(number(p - q))[0] >= 0 for q in parts)]
            if largest:
                return largest[0]
        raise self.lacking(f"a size that is {e}")

    def _floored(self, product: Any) -> Any:
        """The whole part of a size times a number, as the size times a fraction that gives the same at every value that
        it can have. Raises `lacking` where no fraction of few digits does."""
        factors = product.args if product.is_Mul else (product,)
        numbers, sizes = [float(f) for f in factors if f.is_Float], [f.args[0] for f in factors if isinstance(f, ToFloat)]
        if len(numbers) != 1 or len(sizes) != 1 or len(factors) != 2 or not 0 < numbers[0] < MOST_FACTOR:
            raise self.lacking(f"a size that is the whole part of {product}")
        size, factor = self._converted(sizes[0]), numbers[0]
        low, high = ix.bounds(number(size))
        for digits in range(7) if low >= 0 and high < MOST_TRIED else ():
            share = Fraction(factor).limit_denominator(10**digits)
            values = np.arange(low, high + 1)
            if np.array_equal(np.floor(values * factor), values * share.numerator // share.denominator):
                return size * share.numerator // share.denominator
        raise self.lacking(f"a size that is the whole part of {product}")

    def number(self, n: torch.SymFloat) -> Tensor:
        """A number that PyTorch computes of sizes, as a tensor without dimensions. Raises NotImplementedError, and `lacking`."""
        found: Tensor = self._computed(n.node.expr)
        return found

    def _computed(self, e: Any) -> Any:
        if e.is_Integer or e.is_Float:
            return xp.full((), float(e), dtype="float64")
        if e.is_integer:
            return xp.full((), self._converted(e), dtype="float64")
        function = FUNCTIONS.get(type(e).__name__)
        if function is None:
            raise self.lacking(f"a number that is {e}")
        return reduce(function, map(self._computed, e.args)) if len(e.args) > 1 else function(self._computed(e.args[0]))


class GraphSizes(KnownSymbols):
    """The symbols of a graph with ranges: from the least that PyTorch's guards allow, to some times the `most` that was seen of each.
    `values`: those of the call that the graph is compiled for."""

    lacking = NoSymbol

    def __init__(self, reader: SizeReader, inputs: Sequence[fx.Node], values: Sequence[int], most: Sequence[int]) -> None:
        ranges = _ranges(inputs)
        found: dict[Any, int] = {}
        room = max(1, ROOM // max(1, len(reader.symbols)))
        for symbol, value, seen in zip(reader.symbols, values, most, strict=True):
            low, high = ranges.get(symbol, (0, None))
            low, top = min(low, value), max(LEAST, (1 << (seen - 1).bit_length()) << room)
            found[symbol] = Var(str(symbol), low, top if high is None else min(top, high)) if low != high else low
        super().__init__(found)
        self.values = dict(zip(reader.symbols, values, strict=True))
        self._spans = [(v, v) if type(v) is int else (v.node.arg.lo, v.node.arg.hi) for v in self.vars.values()]  # type: ignore[attr-defined]

    def __str__(self) -> str:
        return ", ".join(f"{s} from {a} to {b}" for s, (a, b) in zip(self.vars, self._spans, strict=True))

    def cover(self, values: Sequence[int]) -> bool:
        """Whether the values lie in the ranges."""
        return all(a <= v <= b for v, (a, b) in zip(values, self._spans, strict=True))

    def value(self, n: int | torch.SymInt) -> int:
        """A size's value at the call that the graph is compiled for."""
        return int(n.node.expr.xreplace(self.values)) if isinstance(n, torch.SymInt) else n

    def named(self, values: Sequence[int]) -> dict[Node, int]:
        """Values by our symbols."""
        return {number(v): n for v, n in zip(self.vars.values(), values, strict=True) if type(v) is not int}


def _ranges(inputs: Sequence[fx.Node]) -> Mapping[Any, tuple[int, int | None]]:
    """The ranges that PyTorch's guards give its symbols; None: without an end."""
    for node in inputs:
        value = node.meta.get("val")
        for n in [value] if isinstance(value, torch.SymInt) else getattr(value, "shape", ()):
            if isinstance(n, torch.SymInt):
                found = n.node.shape_env.var_to_range
                return {
                    s: (int(r.lower) if r.lower.is_Integer else 0, int(r.upper) if r.upper.is_Integer else None) for s, r in found.items()
                }
    return {}


def sized(values: Mapping[Node, int]) -> Callable[[ArrayLayout], ArrayLayout]:
    """Layouts with these values of the symbols."""
    return lambda layout: layout.sized(concrete(layout.shape, values), concrete(layout.stored, values)) if layout.symbolic else layout
