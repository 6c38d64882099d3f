"""A row of the cache: one measurement of one schedule, whatever came of it."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from types import MappingProxyType
from typing import Any, get_type_hints

from ..files.strict import AS_JSON, INT_MAX, canon, parse
from ..ir.errors import CacheError
from .keys import DEFAULT_POLICY, Key
from .objective_types import TIME

OUTCOMES = ("ok", "wrong", "build", "timeout", "crash", "illegal", "slow")
IMPORTED = "imported"
"""The field of a provenance that says: measured elsewhere, came with a bundle."""
PINNED = "pinned"
"""The field of a provenance that says: chosen by hand, so it answers before all others."""
OBJECTIVE = "objective"
"""The field of a provenance that says what was made small, where that was not the time."""
POLICY = "measured"
"""The field of a provenance that says how calls were measured (`measure.measurement_policy`), where that was asked for."""
PROVISIONAL = "provisional"
"""The field of a provenance that says: the best so far of a search that went on. It answers until that search's own answer is there."""
TREE = "sizes"
"""The field of a provenance that holds trees of sizes (`cache.size_tree`)."""
MAX_TEXT = 1 << 18
"""Characters in a field of JSON text."""
MAX_NAME = 1 << 12
"""Characters in any other text field."""


def now(after: str = "") -> str:
    """This moment, UTC, ISO 8601 in microseconds; a microsecond after `after` where the clock is behind that: clocks are set back, and of rows that
    differ the newest counts."""
    moment = datetime.now(UTC)
    if after >= moment.isoformat(timespec="microseconds"):
        moment = datetime.fromisoformat(after) + timedelta(microseconds=1)
    return moment.isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Times are seconds, `bytes` is compulsory traffic, `when` is UTC ISO 8601. JSON fields hold canonical JSON text; a dict or
    list given for one is converted. `opts` names axes and buffers canonically and is what a look-up uses; `opts_display` has
    the names of the kernel that was tuned. `effects` are those of the schedule, joined with '+'. `verified`: the whole output
    was checked. `source_sha` and `tool_version` say whether the schedule still means the same code."""

    kernel: str
    target: str
    threads: int
    compiler: str
    policy: str = DEFAULT_POLICY
    loose_extents: str = ""
    loose_epilogue: str = ""
    name: str = ""
    shape: str = "{}"
    dtype: str = ""
    device: str = ""
    opts: str = "[]"
    opts_display: str = "[]"
    outcome: str = "ok"
    t_min: float | None = None
    t_med: float | None = None
    n: int = 0
    start_s: float | None = None
    flops: int = 0
    bytes: int = 0
    roofline_s: float | None = None
    strategy: str = ""
    effects: str = ""
    verified: bool = False
    source_sha: str = ""
    tool_version: str = ""
    provenance: str = "{}"
    run_id: str = ""
    when: str = ""

    def __post_init__(self) -> None:
        for f in JSON_FIELDS:
            value = getattr(self, f)
            if not isinstance(value, str):
                object.__setattr__(self, f, canon(value))
        if not self.when:
            object.__setattr__(self, "when", now())

    @property
    def key(self) -> Key:
        """The strict key of this row."""
        return Key(self.kernel, self.target, self.threads, self.compiler, self.policy, self.objective)

    @property
    def objective(self) -> str:
        """What the search that wrote it made small. The provenance holds it, but for the time."""
        said = self.facts.get(OBJECTIVE, TIME)
        return said if isinstance(said, str) else TIME

    @property
    def digest(self) -> str:
        """SHA-256 of the whole content: equal measurements are stored once, and changed ones are noticed."""
        return digest_of_record(_values(self))

    @property
    def shape_dict(self) -> dict[str, int]:
        """The shape the row was tuned at, by shape name."""
        return dict(json.loads(self.shape))

    @property
    def usable(self) -> bool:
        """Whether a look-up may return it."""
        return self.outcome == "ok" and self.verified and self.t_med is not None

    @property
    def facts(self) -> Mapping[str, Any]:
        """The provenance, decoded."""
        return _facts(self.provenance)

    @property
    def imported(self) -> bool:
        """Whether it came with a bundle."""
        return self.facts.get(IMPORTED) is True

    @property
    def provisional(self) -> bool:
        """Whether the search that wrote it went on."""
        return f'"{PROVISIONAL}"' in self.provenance and self.facts.get(PROVISIONAL) is True

    @property
    def pinned(self) -> bool:
        """Whether somebody chose it here by hand. What came with a bundle was chosen elsewhere."""
        return self.facts.get(PINNED) is True and not self.imported

    def unpinned(self, run_id: str) -> Row:
        """The same measurement as one of another run that nobody chose by hand."""
        return replace(self, run_id=run_id, provenance=canon({k: v for k, v in json.loads(self.provenance).items() if k != PINNED}))

    def marked(self, imported: bool) -> Row:
        """The same row as one that came with a bundle, or as one that did not."""
        facts = json.loads(self.provenance)
        if facts.pop(IMPORTED, None) is None and not imported:
            return self
        return replace(self, provenance=canon({**facts, IMPORTED: True} if imported else facts))

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, scalars only."""
        return dict(zip(_FIELDS, _values(self)))

    def stored(self) -> dict[str, Any]:
        """The same by the names of the columns, as tables and bundles hold it."""
        return dict(zip(COLUMNS, _values(self)))


JSON_FIELDS = ("shape", "opts", "opts_display", "provenance")
_STORED = {"start_s": "seed_s"}
"""Fields that tables and bundles of schema 1 call by another name."""
_FIELDS = tuple(f.name for f in fields(Row))
COLUMNS: tuple[str, ...] = tuple(_STORED.get(f, f) for f in _FIELDS)
"""The fields by the names that they are stored by, in their order."""
_OWN = {stored: f for f, stored in _STORED.items()}
_PLAIN = tuple(f for f in _FIELDS if f not in JSON_FIELDS)
_values = attrgetter(*_FIELDS)
_HINTS = get_type_hints(Row)
TYPES: dict[str, tuple[type, bool]] = {
    _STORED.get(f, f): ((float if "float" in str(h) else h), "None" in str(h)) for f, h in _HINTS.items() if f in _FIELDS
}
"""Scalar type of each field, and whether it may be None."""


@functools.lru_cache(maxsize=4096)
def _facts(text: str) -> Mapping[str, Any]:
    return MappingProxyType(json.loads(text))


def objective_in(provenance: str) -> str:
    """What a provenance says was made small, as text that nobody has checked yet."""
    if f'"{OBJECTIVE}":' not in provenance:
        return TIME
    try:
        said = json.loads(provenance).get(OBJECTIVE, TIME)
    except (ValueError, AttributeError):
        return TIME
    return said if isinstance(said, str) else TIME


def digest_of(values: dict[str, Any]) -> str:
    """The digest of a row's fields, which need not be valid."""
    return hashlib.sha256(_encoded(values).encode()).hexdigest()


_encoded = json.JSONEncoder(sort_keys=True, separators=(",", ":"), default=repr).encode
_ORDER = [(COLUMNS.index(c), f'"{c}":') for c in sorted(COLUMNS)]


def digest_of_record(content: Sequence[Any]) -> str:
    """`digest_of` for scalars in the order of `COLUMNS`, whatever follows them, in less time."""
    try:
        text = ",".join([name + AS_JSON[type(value := content[i])](value) for i, name in _ORDER])
    except KeyError:
        return digest_of(dict(zip(COLUMNS, content)))
    return hashlib.sha256(f"{{{text}}}".encode()).hexdigest()


def line_of(row: Row) -> str:
    """A row as one line of canonical JSON, in which JSON fields are nested. Raises CacheError for text in them that is no JSON."""
    content = _values(row)
    parts = (_nested(c, v) if (c := COLUMNS[i]) in JSON_FIELDS else scalar_text(v) for i, _ in _ORDER for v in (content[i],))
    return "{" + ",".join(name + part for (_, name), part in zip(_ORDER, parts)) + "}"


def scalar_text(value: Any) -> str:
    """A number, text, bool or None as JSON. Raises CacheError for what JSON does not have."""
    write = AS_JSON.get(type(value), canon)  # a plug-in's device may give a class of its own
    if isinstance(value, float) and not math.isfinite(value):
        raise CacheError(f"a row holds {value}, which JSON does not have")
    return write(value)


@functools.lru_cache(maxsize=4096)
def _nested(field: str, text: str) -> str:
    return canon(parse(text, f"row, field {field}", CacheError))


def check(row: Row, what: str = "row") -> Row:
    """`row` with JSON fields and numbers in their one form; raises CacheError naming a field that is out of its range."""
    return from_dict(row.to_dict(), what)


def from_dict(values: dict[str, Any], what: str = "row", *, nested: bool = False) -> Row:
    """A checked Row from plain data, by the names of its fields or of the columns; every field must be there and no other. `nested`: JSON fields are not texts, but what
    `strict.parse` made of them. Raises CacheError naming the field."""
    values = {_OWN.get(f, f): value for f, value in values.items()}
    unknown, missing = sorted(set(values) - set(_FIELDS)), sorted(set(_FIELDS) - set(values))
    if unknown or missing:
        said = [f"unknown field {', '.join(map(ascii, unknown[:3]))}"] * bool(unknown) + [f"missing field {', '.join(missing[:3])}"] * bool(
            missing
        )
        raise CacheError(f"{what}: {'; '.join(said)}")
    clean = {f: _scalar(f, values[f], what) for f in (_PLAIN if nested else _FIELDS)}
    for f, kind in zip(JSON_FIELDS, (dict, list, list, dict), strict=True):
        try:
            clean[f] = _scalar(f, _text_of(f, kind, values[f]), what) if nested else _json(f, kind, clean[f])
        except CacheError as e:
            raise CacheError(f"{what}{e}") from None
    row = Row(**clean)
    if row.outcome not in OUTCOMES:
        raise CacheError(f"{what}: outcome {row.outcome!r} is none of {', '.join(OUTCOMES)}")
    if row.threads < 1:
        raise CacheError(f"{what}: threads is {row.threads}, must be at least 1")
    if row.outcome == "ok" and row.t_med is None:
        raise CacheError(f"{what}: outcome is ok but t_med is missing")
    if not row.kernel or not row.target:
        raise CacheError(f"{what}: kernel and target must not be empty")
    if not _is_utc(row.when):
        raise CacheError(f"{what}: field when must be UTC ISO 8601 in microseconds, like 2025-01-31T08:00:00.000000+00:00")
    return row


@functools.lru_cache(maxsize=4096)
def _json(field: str, kind: type[Any], text: str) -> str:
    """The one form of a JSON field; the measurements of a kernel have most of them in common. Errors are the end of a sentence."""
    return _text_of(field, kind, parse(text, f", field {field}", CacheError))


def _text_of(field: str, kind: type[Any], inside: Any) -> str:
    if not isinstance(inside, kind):
        raise CacheError(f": field {field} must hold a JSON {'object' if kind is dict else 'list'}")
    if field == "shape" and not all(type(v) is int and v >= 0 and printable(k) for k, v in inside.items()):
        raise CacheError(": field shape must hold whole numbers by name")
    return canon(inside)


def _is_utc(when: str) -> bool:
    """One offset and one form, so that text order is time order."""
    try:
        return datetime.fromisoformat(when).astimezone(UTC).isoformat(timespec="microseconds") == when
    except (ValueError, OverflowError):
        return False


def _scalar(field: str, value: Any, what: str) -> Any:
    kind: Any
    kind, optional = TYPES[_STORED.get(field, field)]
    if type(value) is str and kind is str and value.isascii() and len(value) <= MAX_NAME and (field in JSON_FIELDS or value.isprintable()):
        return value
    if value is None and optional:
        return None
    if kind is float and isinstance(value, (int, float)) and type(value) is not bool:
        value = float(value)
    if type(value) is not kind:
        raise CacheError(f"{what}: field {field} must be {kind.__name__}, not {type(value).__name__}")
    if kind is str and (
        len(value) > (MAX_TEXT if field in JSON_FIELDS else MAX_NAME)
        or not (field in JSON_FIELDS or printable(value))
        or not _is_utf8(value)
    ):
        raise CacheError(f"{what}: field {field} is too long or holds a character that cannot be stored")
    if kind is float and not 0 <= value < float("inf"):
        raise CacheError(f"{what}: field {field} must be finite and not negative")
    if kind is int and not 0 <= value <= INT_MAX:
        raise CacheError(f"{what}: field {field} must be in 0 .. 2^63-1")
    return value


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202b\u202d\u202e]")


def printable(text: str) -> bool:
    """No control characters: what is shown on a terminal must not be able to do anything to it."""
    return _CONTROL.search(text) is None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
