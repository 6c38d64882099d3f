"""How a point of the templates (a template and its choices) is written as the parameters of an Optuna trial, for one kind of sampler."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

    from ..space import TemplateLike
    from .samplers import SamplerKind

Point = tuple[str, dict[str, Any]]
"""A template's name and its choices."""
TEMPLATE = "template"


class Layout:
    """A parameter for the template's name, and one `template.param` for each choice: the choice's index, an integer
    where the choices are numbers in order, so that the sampler knows which are near, else a category. A flat sampler
    gets all of them in every trial, the others those of the template."""

    def __init__(self, templates: Sequence[TemplateLike], kind: SamplerKind) -> None:
        self.templates = {t.name: t for t in templates}
        self._names, self._kind = list(self.templates), kind

    def suggest(self, trial: Any) -> Point:
        """What a trial chooses."""
        name = (
            self._names[trial.suggest_int(TEMPLATE, 0, len(self._names) - 1)]
            if self._kind.numeric
            else trial.suggest_categorical(TEMPLATE, self._names)
        )
        chosen = {(t.name, k): v[self._suggest(trial, t.name, k, v)] for t in self._of(name) for k, v in t.params.items()}
        return name, {k: chosen[name, k] for k in self.templates[name].params}

    def fixed(self, point: Point) -> dict[str, Any]:
        """The parameters with which a trial is queued."""
        name, params = point
        return {TEMPLATE: self._template(name), **{_label(name, k): self._index(name, k, v) for k, v in params.items()}}

    def whole(self, point: Point) -> tuple[dict[str, Any], dict[str, BaseDistribution]]:
        """Parameters and distributions of a finished trial; where the sampler is flat, other templates' parameters
        have their first choice."""
        from optuna.distributions import CategoricalDistribution, IntDistribution

        name, params = point
        values: dict[str, Any] = {TEMPLATE: self._template(name)}
        kinds: dict[str, BaseDistribution] = {
            TEMPLATE: IntDistribution(0, len(self._names) - 1) if self._kind.numeric else CategoricalDistribution(self._names)
        }
        for t in self._of(name):
            for k, v in t.params.items():
                values[_label(t.name, k)] = self._index(name, k, params[k]) if t.name == name else 0
                kinds[_label(t.name, k)] = (
                    IntDistribution(0, len(v) - 1) if self._number(v) else CategoricalDistribution(list(range(len(v))))
                )
        return values, kinds

    def _of(self, name: str) -> list[TemplateLike]:
        """The templates whose parameters a trial of this one has."""
        return list(self.templates.values()) if self._kind.flat else [self.templates[name]]

    def _template(self, name: str) -> str | int:
        return self._names.index(name) if self._kind.numeric else name

    def _index(self, name: str, param: str, value: Any) -> int:
        return list(self.templates[name].params[param]).index(value)

    def _suggest(self, trial: Any, name: str, param: str, choices: Sequence[Any]) -> int:
        label = _label(name, param)
        return int(
            trial.suggest_int(label, 0, len(choices) - 1)
            if self._number(choices)
            else trial.suggest_categorical(label, list(range(len(choices))))
        )

    def _number(self, choices: Sequence[Any]) -> bool:
        ordered = all(isinstance(c, int) and not isinstance(c, bool) for c in choices) and list(choices) == sorted(choices)
        return ordered or self._kind.numeric


def _label(template: str, param: str) -> str:
    return f"{template}.{param}"
