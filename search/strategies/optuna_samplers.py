"""Optuna's samplers as they are used here: what each one needs, and what it can learn from.

They differ in what a trial may be. TPE takes parameters that exist under one template only, learns from pruned
trials, and ranks those that break a constraint last. GP and NSGA-II learn from completed trials alone, so what is
slow or illegal reaches them as a completed trial, the latter with its constraint broken. CMA-ES, QMC and random know
no constraints: an illegal point is a pruned trial to them, and they draw again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from ...ir.errors import UsageError

PREFIX = "optuna:"


@dataclass(frozen=True, slots=True)
class SamplerKind:
    """`needs`: packages beside Optuna's own, and the `extra` of ours that installs them. `flat`: it wants every trial
    to have the same parameters. `numeric`: it takes numbers only. `constrained`: it understands constraints.
    `prunes`: it learns from pruned trials (or from none at all). `guided`: the first trials are the model's
    favourites, and after each suggestion a neighbour is tried, which costs nothing to think of; the others try one
    where they repeat themselves, but a `baseline` is left alone. `injects`: how many of an earlier session's best
    trials are asked for again, because it learns only from trials of its own. `make(seed, startup)` gives the
    sampler."""

    name: str
    make: Callable[[int, int], Any]
    needs: tuple[str, ...] = ()
    extra: str = ""
    flat: bool = True
    numeric: bool = False
    constrained: bool = False
    prunes: bool = True
    guided: bool = False
    baseline: bool = False
    injects: int = 0


def _tpe(seed: int, startup: int) -> Any:
    """Bergstra et al., "Algorithms for Hyper-Parameter Optimization" (NeurIPS 2011); multivariate and grouped by template."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=startup)


def _gp(seed: int, startup: int) -> Any:
    """A Gaussian process with a Matern 5/2 kernel and log expected improvement."""
    import torch
    from optuna.samplers import GPSampler

    # its matrices are small, and the threads of a pool would spin beside what is being timed
    torch.set_num_threads(1)
    return GPSampler(seed=seed, n_startup_trials=startup, warn_independent_sampling=False)


def _cmaes(seed: int, startup: int) -> Any:
    """Hansen, "The CMA Evolution Strategy: A Tutorial" (2016). Without margin: with it Optuna pairs a queued trial's
    time with another point."""
    from optuna.samplers import CmaEsSampler

    return CmaEsSampler(seed=seed, n_startup_trials=1, consider_pruned_trials=True, warn_independent_sampling=False)


def _nsga2(seed: int, startup: int) -> Any:
    """Deb et al., "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II" (2002), here with one objective and
    constrained domination."""
    from optuna.samplers import NSGAIISampler

    return NSGAIISampler(seed=seed, population_size=24)


def _qmc(seed: int, startup: int) -> Any:
    """A scrambled Sobol sequence."""
    from optuna.samplers import QMCSampler

    return QMCSampler(seed=seed, scramble=True, warn_independent_sampling=False)


def _random(seed: int, startup: int) -> Any:
    from optuna.samplers import RandomSampler

    return RandomSampler(seed=seed)


KINDS = {
    k.name: k
    for k in (
        SamplerKind("tpe", _tpe, flat=False, constrained=True, guided=True),
        SamplerKind("gp", _gp, needs=("scipy", "torch"), extra="optuna-gp", constrained=True, prunes=False, guided=True),
        SamplerKind("cmaes", _cmaes, needs=("cmaes",), extra="optuna", numeric=True, injects=24),
        SamplerKind("nsga2", _nsga2, constrained=True, prunes=False, injects=24),
        SamplerKind("qmc", _qmc, needs=("scipy",), extra="optuna", baseline=True),
        SamplerKind("random", _random, flat=False, baseline=True),
    )
}
"""Every sampler by the name that follows `optuna:`."""


def kind(name: str) -> SamplerKind:
    """The sampler called `name`, without the prefix. Raises UsageError for an unknown one, suggesting the nearest,
    and for one whose packages are missing."""
    found = KINDS.get(name)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(name, KINDS, 1, 0.4)
        raise UsageError(
            f"unknown Optuna sampler {name!r}{f'; did you mean {near[0]!r}?' if near else '.'} Use one of {', '.join(PREFIX + k for k in KINDS)}."
        )
    missing = [p for p in found.needs if find_spec(p) is None]
    if missing:
        raise UsageError(
            f"{PREFIX}{name} needs the Python package{'s' * (len(missing) > 1)} {' and '.join(missing)}: pip install {' '.join(missing)}"
            f" (or tilewright[{found.extra}]), or use {PREFIX}tpe"
        )
    return found


def make(k: SamplerKind, seed: int, startup: int) -> Any:
    """The Optuna sampler. Optuna says nothing from here on."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with quiet():
        return k.make(seed, startup)


def quiet() -> warnings.catch_warnings:
    """Keeps back Optuna's warnings about experimental arguments, whose names are all that we rely on; a context manager."""
    return warnings.catch_warnings(action="ignore")
