"""Options of captured functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, get_args

from ...cache.keys import Numerics
from ...ir import argument_checks
from ...ir.errors import UsageError
from ...plan.first_use_check import wanted
from ..trees import flatten
from .call_arguments import CallLayout

TuneMode = Literal["use", "require", "list", "record", "tune", "background"]
NewShapes = Literal["recapture", "error"]
MODES: tuple[str, ...] = get_args(TuneMode)
SHAPES: tuple[str, ...] = get_args(NewShapes)


class JitSettings(TypedDict, total=False):
    """The options of `jit`, by name."""

    tune: TuneMode
    shapes: NewShapes
    donate: str | tuple[str, ...] | list[str]
    device: str | None
    threads: int | None
    cache: Any
    budget: float | str | None
    symbols: Mapping[str, Any]
    check: bool | None
    numerics: Numerics
    frozen: bool
    numpy: bool


@dataclass(frozen=True)
class JitOptions:
    """See `jit`. `parameters`: the names of the function's arguments."""

    tune: TuneMode = "use"
    shapes: NewShapes = "recapture"
    donate: tuple[str, ...] = ()
    device: str | None = None
    threads: int | None = None
    cache: Any = None
    budget: float | str | None = None
    parameters: tuple[str, ...] = ()
    symbols: Mapping[str, Any] = field(default_factory=dict)
    check: bool | None = None
    numerics: Numerics = "free"
    frozen: bool = False
    numpy: bool = False

    @property
    def checks(self) -> bool:
        """Whether schedules that nobody measured are checked before they answer."""
        return wanted(self.check)

    def __post_init__(self) -> None:
        argument_checks.one_of("jit", "tune", self.tune, MODES)
        argument_checks.one_of("jit", "shapes", self.shapes, SHAPES)
        argument_checks.one_of("jit", "numerics", self.numerics, get_args(Numerics))
        given = {name: getattr(self, name) for name in ("donate", "threads", "cache", "symbols", "budget", "check")}
        argument_checks.check("jit", **given)
        if not isinstance(self.frozen, bool):
            raise UsageError(f"jit(frozen={self.frozen!r}): say True where tensors from outside keep their contents, or False")
        if not isinstance(self.numpy, bool):
            raise UsageError(f"jit(numpy={self.numpy!r}): say True for a function of NumPy arrays with NumPy arrays as results, or False")
        if self.numpy and (self.symbols or self.donate or self.device not in (None, "cpu")):
            raise UsageError(
                "jit(numpy=True): its sizes are symbols by themselves and its arrays the caller's; leave symbols, donate and device"
            )
        if self.device is not None and not isinstance(self.device, str):
            raise UsageError(f'jit(device={self.device!r}): give a device\'s name, such as "cpu"')
        object.__setattr__(self, "donate", (self.donate,) if isinstance(self.donate, str) else tuple(self.donate))

    def of(self, function: Callable[..., Any]) -> JitOptions:
        """The options for one function. Raises UsageError for a name in `donate` that is no argument."""
        if not self.donate and not self.symbols:
            return self
        names = tuple(inspect.signature(function).parameters)
        for name in self.donate:
            if name not in names:
                raise UsageError(
                    f"jit(donate={name!r}): {getattr(function, '__name__', 'the function')} has no such argument ({', '.join(names)})"
                )
        return replace(self, parameters=names)

    def donated(self, layout: CallLayout) -> frozenset[int]:
        """Positions of the tensors in donated arguments."""
        if not self.donate:
            return frozenset()
        named = self.named(layout, range(len(layout.kinds)), [None] * len(layout.kinds))
        found: set[int] = set()
        for name in self.donate:
            collect(named.get(name), found)
        return frozenset(found)

    def named(self, layout: CallLayout, tensors: Sequence[Any], numbers: Sequence[Any]) -> dict[str, Any]:
        """Arguments by name, with these in the place of tensors and numbers."""
        args, kwargs = layout.rebuilt(tensors, numbers)
        return {**dict(zip(self.parameters, args)), **kwargs}


def own_numerics(function: Callable[..., Any]) -> Numerics:
    """Those of a captured function; 'free' of any other."""
    options = getattr(function, "options", None)
    return options.numerics if isinstance(options, JitOptions) else "free"


def collect(tree: Any, into: set[int]) -> None:
    """The ints of a tree."""
    into.update(x for x in flatten(tree)[0] if type(x) is int)
