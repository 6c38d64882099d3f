"""Is a candidate right? References, comparisons, further inputs and addresses, and what a fault looks like."""

from __future__ import annotations
