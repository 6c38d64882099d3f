"""Canonical JSON out, strict JSON in. Nothing that is read from a bundle or a row is ever evaluated."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ..ir.errors import CacheError

INT_MIN, INT_MAX = -(2**63), 2**63 - 1


def canon(value: Any) -> str:
    """`value` as one deterministic line of JSON: sorted keys, no spaces, ASCII, no NaN or infinity."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse(text: str, what: str) -> Any:
    """JSON, strictly: no duplicate keys, no NaN or infinity, integers of 64 bits, no unpaired surrogates. Raises CacheError
    that names `what`."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_constant, parse_int=_int, parse_float=_float)
        # an unpaired surrogate parses, but neither SQLite nor a UTF-8 file can hold it
        json.dumps(value, ensure_ascii=False).encode()
    except CacheError as e:
        raise CacheError(f"{what}: {e}") from None
    except RecursionError:
        raise CacheError(f"{what}: nested too deeply") from None
    except ValueError as e:
        raise CacheError(f"{what}: not valid JSON ({e})") from None
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        raise CacheError("a key appears twice in one object")
    return out


def _constant(name: str) -> NoReturn:
    raise CacheError(f"{name} is not allowed")


def _int(digits: str) -> int:
    if len(digits) > 20 or not INT_MIN <= int(digits) <= INT_MAX:
        raise CacheError("an integer does not fit in 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if value in (float("inf"), float("-inf")):
        raise CacheError("a number is too large")
    return value
