"""Configurations as schedules: one SET for each parameter, so that a search, the cache and reports treat a source as they
treat a kernel."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.errors import OptError
from ..opts import Opt, opt, parse
from .parameters import At, Lattice, Value, number
from .source_spec import SourceSpec

if TYPE_CHECKING:
    from ..search.space import Schedule


def schedule(spec: SourceSpec, at: At) -> Schedule:
    """The options that stand for a point."""
    return tuple(opt("SET", p.name, to=p.texts[i]) for p, i in zip(spec.parameters, at, strict=True))


def texts(opts: Sequence[Opt]) -> dict[str, str]:
    """The text of each parameter's value. Raises OptError for an option that is no SET."""
    wrong = next((o for o in opts if o.op != "SET"), None)
    if wrong is not None:
        raise OptError(f"{wrong}: a source has parameters (SET) and no options of kernels")
    return {o.on: str(o.fields["to"]) for o in opts}


def chosen(opts: Sequence[Any]) -> dict[str, Value]:
    """The values that options in JSON form set, {} where these are options of kernels, or none at all."""
    try:
        return {name: number(text) for name, text in texts(parse(opts)).items()}
    except OptError:
        return {}


def point(spec: SourceSpec, opts: Sequence[Opt]) -> At:
    """The point that options stand for. Raises OptError where a parameter or a value is missing, or a restriction refuses it."""
    given = texts(opts)
    names = [p.name for p in spec.parameters]
    if sorted(given) != sorted(names) or len(given) != len(opts):
        raise OptError(f"a configuration of {spec.function} has a value for each of {', '.join(names) or 'no parameters'}, once")
    out = []
    for p in spec.parameters:
        if given[p.name] not in p.texts:
            raise OptError(f"parameter {p.name} has no value {given[p.name]}")
        out.append(p.texts.index(given[p.name]))
    at = tuple(out)
    if at not in spec.lattice:
        raise OptError("a restriction refuses this configuration")
    return at


@dataclass(frozen=True, slots=True)
class Configured:
    """A legal configuration, as `search.space` wants what an engine applies."""

    opts: Schedule
    hash: str
    effects: frozenset[str] = frozenset()


class ParameterTemplate:
    """All configurations as one template: what samplers, walks and models over choices search."""

    name = "configuration"

    def __init__(self, spec: SourceSpec) -> None:
        self._spec = spec
        self.params: dict[str, tuple[Value, ...]] = {p.name: p.values for p in spec.parameters}
        self._options = [{v: opt("SET", p.name, to=t) for v, t in zip(p.values, p.texts, strict=True)} for p in spec.parameters]

    @property
    def lattice(self) -> Lattice:
        """Which of them are legal."""
        return self._spec.lattice

    def make(self, params: Mapping[str, Any]) -> Schedule:
        """The schedule of these values."""
        return tuple(of[params[p]] for p, of in zip(self.params, self._options, strict=True))


class ParameterEngine:
    """The parameters of a source as what a `Space` asks. Nothing is known of a configuration's time before it was measured, and no
    option is ever appended to another."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self._effects = frozenset() if spec.check.deterministic else frozenset({"NONDET"})
        self._template = ParameterTemplate(spec)

    def starts(self) -> Sequence[Schedule]:
        return [schedule(self.spec, self.spec.untuned)]

    def apply(self, opts: Schedule) -> Configured:
        at = point(self.spec, opts)
        return Configured(tuple(opts), hashlib.sha256(repr(at).encode()).hexdigest(), self._effects)

    def actions(self, applied: Configured) -> Sequence[Schedule]:
        return []

    def estimate(self, applied: Configured) -> float:
        return 1e-3

    def code_size(self, applied: Configured) -> float:
        return 0.0

    def templates(self) -> Sequence[ParameterTemplate]:
        return [self._template] if self.spec.parameters else []


class ParameterNames:
    """What a cache calls parameters: by their own names, which are a part of the key."""

    def to_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, Any]) -> list[list[Any]]:
        """The same options."""
        return [list(o) for o in opts]

    def from_canonical(self, opts: Sequence[Sequence[Any]], names: Mapping[str, Any]) -> list[list[Any]]:
        """The same options."""
        return [list(o) for o in opts]
