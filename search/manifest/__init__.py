"""Manifests: the kernels a project wants tuned, tuning all of them, and asking whether all are in the cache."""
