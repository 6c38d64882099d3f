"""The functions of jobs, by kind. They are named by module, and imported where they run: a function that came over the network by
value would find its module's memory empty each time."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from ..ir.errors import FleetError
from .seam import JobFunction, Worksite

FUNCTIONS: dict[str, str] = {"entry": "entry:run", "batch": "batches.at_worker:run", "build": "batches.at_builder:run"}
"""Module of this folder and function, by kind of job."""


def function(kind: str) -> JobFunction:
    """The function of a kind of job. Raises FleetError for a kind that this version does not know."""
    module, _, name = FUNCTIONS.get(kind, "").partition(":")
    if not name:
        raise FleetError(f"this version of Tilewright knows no jobs of the kind {kind!r}; install the client's version here")
    found: JobFunction = getattr(importlib.import_module(f".{module}", __package__), name)
    return found


def perform(kind: str, payload: Mapping[str, Any], site: Worksite) -> Any:
    """Run a job here."""
    return function(kind)(payload, site)
