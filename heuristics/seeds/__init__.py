"""Seed schedules: good answers with no search."""

from .gathered import seeds

__all__ = ["seeds"]
