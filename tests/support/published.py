"""Tables that others published about pipelines, as data."""

from __future__ import annotations

from typing import NamedTuple


class Profiled(NamedTuple):
    """A setting of the Zero Bubble paper: microseconds of F, B, W and a transfer c for p stages and m microbatches; the model's layers,
    hidden size and attention heads."""

    name: str
    p: int
    m: int
    f: float
    b: float
    w: float
    c: float
    layers: int
    hidden: int
    heads: int


_MODELS = {"1.5B": (24, 2304, 24), "6.2B": (32, 4096, 32), "14.6B": (48, 5120, 40), "28.3B": (64, 6144, 48)}
_TIMES = [
    ("1.5B", 8, 24, 18522, 18086, 9337, 601),
    ("1.5B", 8, 32, 18513, 18086, 9331, 626),
    ("1.5B", 8, 64, 18546, 18097, 9321, 762),
    ("6.2B", 8, 24, 29718, 29444, 19927, 527),
    ("6.2B", 8, 32, 29802, 29428, 19530, 577),
    ("6.2B", 8, 64, 29935, 29621, 19388, 535),
    ("14.6B", 16, 48, 11347, 11248, 8132, 377),
    ("14.6B", 16, 64, 11307, 11254, 8101, 379),
    ("14.6B", 16, 128, 11325, 11308, 8109, 378),
    ("28.3B", 32, 96, 10419, 10207, 7715, 408),
    ("28.3B", 32, 128, 10408, 10204, 7703, 408),
    ("28.3B", 32, 256, 10402, 10248, 7698, 460),
]
PROFILED = [Profiled(*row, *_MODELS[row[0]]) for row in _TIMES]
ZERO_BUBBLE = [
    (0.2431, 0.1585, 0.1083),
    (0.1985, 0.1242, 0.0837),
    (0.1240, 0.0674, 0.0444),
    (0.2347, 0.1323, 0.0698),
    (0.1898, 0.1045, 0.0559),
    (0.1091, 0.0554, 0.0294),
    (0.2552, 0.1397, 0.0672),
    (0.2082, 0.1088, 0.0516),
    (0.1251, 0.0576, 0.0266),
    (0.2646, 0.1421, 0.0641),
    (0.2168, 0.1106, 0.0490),
    (0.1352, 0.0594, 0.0257),
]
"""Bubble rates of 1F1B, ZB-H1 and ZB-H2."""
ZB_2P = [0.0433, 0.0039, 0.0026, 0.0029, 0.0022, 0.0010, 0.0066, 0.0054, 0.0028, 0.0038, 0.0029, 0.0018]
"""Bubble rates that their search found with the memory of 2p microbatches."""
ZB_V = [(16, 48, 14407, 14380, 9676, 1610, 0.0697), (16, 64, 14412, 14393, 9688, 1621, 0.0533)]
"""p, m, microseconds of F, B, W and a transfer (of each of a stage's two chunks), and the bubble rate that their heuristic found with the memory
of 1F1B."""
