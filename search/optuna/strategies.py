"""One strategy for each of Optuna's samplers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .strategy import OptunaSearch

if TYPE_CHECKING:
    pass


class Tpe(OptunaSearch):
    """Tree-structured Parzen estimators."""

    name, sampler = "optuna:tpe", "tpe"


class Gp(OptunaSearch):
    """Gaussian process."""

    name, sampler = "optuna:gp", "gp"


class CmaEs(OptunaSearch):
    """Covariance matrix adaptation."""

    name, sampler = "optuna:cmaes", "cmaes"


class Nsga2(OptunaSearch):
    """Genetic algorithm."""

    name, sampler = "optuna:nsga2", "nsga2"


class Qmc(OptunaSearch):
    """Quasi-random sequence."""

    name, sampler = "optuna:qmc", "qmc"


class Uniform(OptunaSearch):
    """Uniform choices: the baseline of the templates' spaces."""

    name, sampler = "optuna:random", "random"
