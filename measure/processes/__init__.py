"""The processes of measuring: builders, the runner with its children, and what they say to each other."""

from __future__ import annotations
