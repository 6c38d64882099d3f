"""Optuna's samplers as a search strategy, and studies in Optuna's own storage."""
