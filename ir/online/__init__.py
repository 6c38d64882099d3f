"""Kernels as online folds: reductions that read one another become a fold whose block rescales what it has."""

from .fold_rewrite import NoFold, compares, online

__all__ = ["NoFold", "compares", "online"]
