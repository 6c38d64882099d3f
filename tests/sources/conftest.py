"""Sources of the tests: small functions with parameters."""

from __future__ import annotations

from pathlib import Path

import pytest

SAXPY = """
#ifndef TILE
#define TILE 8 /* untuned */
#endif
void saxpy(int n, float a, const float *x, float *y) {
    for (int i = 0; i < n; i += TILE)
        for (int j = i; j < i + TILE && j < n; j++) y[j] += a * x[j];
#if MODE == 1
    y[n / 2] += 1;
#elif MODE == 2
#error MODE 2 does not compile
#elif MODE == 3
    y[n] = 1;
#elif MODE == 4
    for (;;) __asm__ volatile("");
#elif MODE == 5
    *(volatile float *)x = 1;
#endif
}
"""
ARGS = """
flops = "2 * n"
[sizes]
n = 3001
[[args]]
name = "n"
dtype = "int"
value = "n"
[[args]]
name = "a"
dtype = "float"
value = 0.5
[[args]]
name = "x"
dtype = "float32"
shape = ["n"]
[[args]]
name = "y"
dtype = "float32"
shape = ["n"]
role = "inout"
"""
REFERENCE = """
import random

def saxpy(a, x, y):
    return y + a * x

def in_place(x, y, a, n):
    y += a * x

def unsure(x, y):
    return y * random.random()

def short(x):
    return x[1:]

def fails(x):
    return 1.0 / (None if x is None else None)

def wants(z):
    return z
"""


@pytest.fixture
def saxpy(tmp_path: Path) -> Path:
    """The folder of saxpy.c, spec.toml and ref.py."""
    (tmp_path / "saxpy.c").write_text(SAXPY)
    (tmp_path / "spec.toml").write_text(ARGS)
    (tmp_path / "ref.py").write_text(REFERENCE)
    return tmp_path
