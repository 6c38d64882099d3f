"""Joules of a call: the counters of processors and GPUs, and how a candidate is run beside them."""

from __future__ import annotations
