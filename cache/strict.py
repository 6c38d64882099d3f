"""Canonical JSON out, strict JSON in. Nothing that is read from a bundle or a row is ever evaluated."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from json.encoder import encode_basestring_ascii
from types import NoneType
from typing import Any, NoReturn

from ..ir.errors import CacheError

INT_MIN, INT_MAX = -(2**63), 2**63 - 1
MAX_DEPTH = 32
"""Objects and lists inside one another."""
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.S)
_BRACKETS = re.compile(r"[\[\]{}]")


def canon(value: Any) -> str:
    """`value` as one deterministic line of JSON: sorted keys, no spaces, ASCII, no NaN or infinity."""
    return _CANON(value)


def parse(text: str, what: str) -> Any:
    """JSON, strictly: no duplicate keys, no NaN or infinity, integers of 64 bits, no unpaired surrogates, not nested
    deeper than MAX_DEPTH. Raises CacheError that names `what`."""
    if text.startswith("\ufeff"):
        raise CacheError(f"{what}: begins with a byte order mark; save it as UTF-8 without one")
    # counted before the decoder recurses: how deep that may go depends on the Python it runs in
    if text.count("[") + text.count("{") > MAX_DEPTH and depth(text) > MAX_DEPTH:
        raise CacheError(f"{what}: nested too deeply")
    try:
        value = _decoder.decode(text)
        if "\\u" in text or not text.isascii():  # an unpaired surrogate parses, but neither SQLite nor a UTF-8 file can hold it
            json.dumps(value, ensure_ascii=False).encode()
    except CacheError as e:
        raise CacheError(f"{what}: {e}") from None
    except ValueError as e:
        raise CacheError(f"{what}: not valid JSON ({e})") from None
    return value


def depth(text: str) -> int:
    """How deep brackets nest in JSON text, those in strings left out; a guess for what is not JSON."""
    now = most = 0
    for c in _BRACKETS.findall(_STRINGS.sub("", text)):
        if c in "[{":
            now += 1
            most = max(most, now)
            if most > MAX_DEPTH:
                break
        else:
            now -= 1
    return most


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


_CANON = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_decoder = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_constant, parse_int=_int, parse_float=_float)


AS_JSON: dict[type, Callable[[Any], str]] = {
    str: encode_basestring_ascii,
    int: int.__repr__,
    float: float.__repr__,
    bool: lambda b: "true" if b else "false",
    NoneType: lambda _: "null",
}
"""How `canon` writes scalars, in less time."""


def scalar_text(value: Any) -> str:
    """A number, text, bool or None as JSON. Raises CacheError for what JSON does not have."""
    write = AS_JSON.get(type(value), canon)  # a plug-in's device may give a class of its own
    if isinstance(value, float) and not math.isfinite(value):
        raise CacheError(f"a row holds {value}, which JSON does not have")
    return write(value)
