"""Other sizes for a kernel than those that its author chose."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from typing import Any

from tilewright.ir import TilewrightError

SMALL = 8
"""Sizes up to this mean something (taps, components, heads): they stay."""
LEAST, MOST = 0.3, 1.4
"""How many times as long an axis may become."""
ROUND = (1, 1, 4, 16, 64)
"""What an axis is a multiple of: half of them of nothing, but for what is even: C and NumPy may halve it."""
TRIES = 40


def drawn(make: Callable[..., Any], sizes: Mapping[str, int], seed: str) -> dict[str, int]:
    """Sizes that `make` takes, another set for each `seed`: single ones stay as they are where none of the others will do."""
    rng, known = random.Random(seed), dict(sizes)
    for keep in (0.0, 0.5):  # (first all of them at once; then what a kernel allows)
        for _ in range(TRIES):
            found = {n: s if s <= SMALL or rng.random() < keep else _other(rng, s) for n, s in sizes.items()}
            if found == known:
                continue
            try:
                make(**found)
            except (TilewrightError, ValueError, ZeroDivisionError):  # groups that do not divide, say
                continue
            return found
    return known


def _other(rng: random.Random, size: int) -> int:
    step = rng.choice([max(r, 2 - size % 2) for r in ROUND if r <= size // 2])
    times = math.exp(rng.uniform(math.log(LEAST), math.log(MOST)))
    return max(step, round(size * times / step) * step)
