"""The names of operators, by kind."""

from __future__ import annotations

FUNCTIONS = frozenset({"exp", "expm1", "log", "log1p", "tanh", "erf", "sin", "cos", "atan"})
"""Elementary functions, which are evaluated by polynomials."""
PAIRED = frozenset({"pow", "floor_div", "floor_mod"})
"""Functions of two floats: a power, and a quotient rounded down with what it leaves."""
DEAR = FUNCTIONS | PAIRED | {"div", "sqrt"}
"""What takes many times as long as an addition."""
COUNTS = frozenset({"popcount", "clz"})
"""What counts bits of an integer: those that are set, and those that are not above the highest that is."""
UNARY = FUNCTIONS | COUNTS | {"neg", "abs", "sqrt", "floor", "round", "trunc", "not"}
INTEGER = COUNTS | {"and", "or", "xor", "not", "shl", "shr", "floordiv", "remainder"}
"""What integers have beside arithmetic. Indices of these operators are plain values: `ir.index` keeps no normal form of them."""
COMMUTATIVE = frozenset({"add", "mul", "max", "min", "eq", "ne", "and", "or", "xor"})
COMPARE = frozenset({"lt", "le", "eq", "ne"})
ABOUT = "about"
"""A float that may have been rounded to another type, so often (its `arg`): only in kernels that say how far results may lie off."""
MASKED = "masked_ref"
"""An element of a value where a mask holds, else 0: only in kernels that are being built (`normal_form/masked_values.py`)."""
