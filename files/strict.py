"""One strict codec: dataclasses from JSON or TOML data and back, and JSON text in one form. Nothing that is read is ever evaluated.

The annotation of a field says what its data must be: `int`, `float`, `str`, `bool`, `None`, unions, `Literal`, enums, lists, tuples, sets,
mappings, dataclasses and named tuples within one another, and bounds by `Annotated` (`Within`, `TextForm`). A number is never read from
text, `true` is no number, and a number is finite."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from json.encoder import encode_basestring_ascii
from types import NoneType
from typing import Annotated, Any, Literal, NoReturn, TypeVar

T = TypeVar("T")
Reader = Callable[[Any], Any]
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
MAX_DEPTH = 32
"""Objects and lists inside one another."""
_STRINGS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.S)
_BRACKETS = re.compile(r"[\[\]{}]")


class Misread(ValueError):
    """Data that is not what was expected. `path`: the keys and indices that lead to it; `why`: what is wrong there."""

    def __init__(self, why: str, path: tuple[str | int, ...] = ()) -> None:
        self.why, self.path = why, path
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
        super().__init__(f"{place}: {why}" if path else why)


# bounds -----------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Within:
    """A number from `least` to `most`; `above`: `least` itself is out of bounds."""

    least: float = -math.inf
    most: float = math.inf
    above: bool = False

    def __call__(self, value: float) -> str:
        if self.least <= value <= self.most and not (self.above and value == self.least):
            return ""
        low = "" if self.least == -math.inf else f"{'more than' if self.above else 'at least'} {self.least}"
        high = "" if self.most == math.inf else f"at most {self.most}"
        return f"must be {' and '.join(filter(None, (low, high)))}, not {value}"


@dataclass(frozen=True, slots=True)
class TextForm:
    """Text of `least` to `most` characters that matches `pattern` as a whole, where there is one."""

    most: int = sys.maxsize
    least: int = 0
    pattern: str = ""

    def __call__(self, value: str) -> str:
        if not self.least <= len(value) <= self.most:
            return "must not be empty" if not value else f"must be text of at most {self.most} characters"
        return "" if not self.pattern or re.fullmatch(self.pattern, value) else f"{value[:80]!r} does not have the form {self.pattern}"


Natural = Annotated[int, Within(0)]
Count = Annotated[int, Within(1)]
Positive = Annotated[float, Within(0, above=True)]
Sha256 = Annotated[str, TextForm(pattern="[0-9a-f]{64}")]


# data -------------------------------------------------------------------------------------------------------
class Codec:
    """Reads and writes plain data. `forms`: for classes that are no dataclasses of plain fields, how one is written and read; a reader
    raises ValueError, TypeError or LookupError."""

    def __init__(self, forms: Mapping[type, tuple[Callable[[Any], Any], Reader]] | None = None) -> None:
        self._forms = dict(forms or {})
        self._readers: dict[Any, Reader] = {}

    def read(self, of: type[T], data: Any, *, unknown: Literal["refuse", "ignore"] = "refuse", whole: bool = False, **known: Any) -> T:
        """An object of `of` from its data. `unknown`: what becomes of keys that the class does not have; `whole`: every field of the
        outermost dataclass must be there, defaults or not; `known`: fields of it that the data does not have. Raises Misread."""
        if dataclasses.is_dataclass(of):
            return typing.cast("T", self._record(of, data, unknown, whole, known))
        return typing.cast("T", self.reader(of)(data))

    def plain(self, value: Any) -> Any:
        """What `read` reads: numbers, text, booleans, None, lists and dicts. Raises TypeError for what has no such form."""
        form = self._forms.get(type(value))
        if form is not None:
            return form[0](value)
        if isinstance(value, Enum):
            return value.value
        if value is None or isinstance(value, (str, int, float)):
            return value
        if dataclasses.is_dataclass(value):
            return {f.name: self.plain(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        if isinstance(value, Mapping):
            return {str(k): self.plain(v) for k, v in value.items()}
        if isinstance(value, (set, frozenset)):
            return sorted(map(self.plain, value))
        if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
            return [self.plain(v) for v in value]
        raise TypeError(f"{type(value).__name__} has no plain form")

    def reader(self, hint: Any) -> Reader:
        """What reads the data of one annotation."""
        if hint not in self._readers:
            self._readers[hint] = self._reader(hint)
        return self._readers[hint]

    def _reader(self, hint: Any) -> Reader:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint in self._forms:
            return _converted(self._forms[hint][1])
        if hint in _SCALARS:
            return _SCALARS[hint]
        if origin is Annotated:
            return _bounded(self.reader(arguments[0]), hint.__metadata__)
        if origin is Literal:
            return _one_of(arguments, arguments)
        if origin in (typing.Union, types.UnionType):
            return self._union(arguments)
        if origin in _LISTS:
            return self._list(origin, arguments)
        if origin in (dict, Mapping):
            return self._mapping(*arguments)
        if isinstance(hint, type) and issubclass(hint, Enum):
            return _one_of([e.value for e in hint], list(hint))
        if isinstance(hint, type) and hasattr(hint, "_fields"):
            hints = typing.get_type_hints(hint, include_extras=True)
            row = self._list(tuple, tuple(hints.values()))
            return lambda data: hint(*row(data))
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            return lambda data: self._record(hint, data, "refuse", False, {})
        raise TypeError(f"{hint} has no strict form")

    def _record(self, of: Any, data: Any, unknown: str, whole: bool, known: Mapping[str, Any]) -> Any:
        fields = {f.name: f for f in dataclasses.fields(of) if f.init and f.name not in known}
        table = keys(data, fields, unknown)
        values = dict(known)
        for name, field in fields.items():
            if name in table:
                values[name] = at(name, self.reader(_hint(of, name)), table[name])
            elif whole or (field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING):
                raise Misread(f"the key {name!r} is missing")
        try:
            return of(**values)
        except Misread:
            raise
        except ValueError as e:  # of __post_init__
            raise Misread(str(e)) from e

    def _union(self, arguments: tuple[Any, ...]) -> Reader:
        readers = [self.reader(a) for a in arguments if a is not NoneType]

        def read(data: Any) -> Any:
            if data is None and NoneType in arguments:
                return None
            wrong: list[Misread] = []
            for reader in readers:
                try:
                    return reader(data)
                except Misread as e:
                    wrong.append(e)
            if any(e.path for e in wrong) or len(wrong) == 1:
                raise max(wrong, key=lambda e: len(e.path))
            raise Misread(" or ".join(dict.fromkeys(e.why for e in wrong)))

        return read

    def _list(self, origin: Any, arguments: tuple[Any, ...]) -> Reader:
        fixed = origin is tuple and arguments[-1] is not Ellipsis
        make = {Sequence: tuple, Collection: tuple, Iterable: tuple}.get(origin, origin)
        each = [self.reader(a) for a in (arguments if fixed else arguments[:1])]

        def read(data: Any) -> Any:
            if not isinstance(data, (list, tuple)):
                raise Misread(f"must be a list, not {shown(data)}")
            if fixed and len(data) != len(each):
                raise Misread(f"must be a list of {len(each)}, not of {len(data)}")
            return make([at(i, each[i if fixed else 0], x) for i, x in enumerate(data)])

        return read

    def _mapping(self, key: Any, value: Any) -> Reader:
        read_key, read_value = self.reader(key), self.reader(value)
        numbers = key is int or (typing.get_origin(key) is Annotated and typing.get_args(key)[0] is int)

        def read(data: Any) -> Any:
            out = {}
            for k, v in table(data).items():
                number = int(k) if numbers and isinstance(k, str) and re.fullmatch(r"-?[1-9]\d{0,17}|0", k) else k
                out[at(k, read_key, number)] = at(k, read_value, v)
            return out

        return read


def at(step: str | int, read: Reader, data: Any) -> Any:
    """`read(data)`; what is wrong is wrong at `step`."""
    try:
        return read(data)
    except Misread as e:
        raise Misread(e.why, (step, *e.path)) from None


def table(data: Any) -> Mapping[str, Any]:
    """Data that must be an object with text keys. Raises Misread."""
    if not isinstance(data, Mapping) or not all(isinstance(k, str) for k in data):
        raise Misread(f"must be an object, not {shown(data)}")
    return data


def keys(data: Any, known: Collection[str], unknown: str = "refuse") -> Mapping[str, Any]:
    """An object with no other keys than `known`. Raises Misread, which names what was meant."""
    for key in table(data):
        if key not in known and unknown == "refuse":
            near = difflib.get_close_matches(key, known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise Misread(f"unknown key {key[:80]!r}{hint} (keys: {', '.join(known)})", (key,))
    return typing.cast("Mapping[str, Any]", data)


def shown(data: Any) -> str:
    """Data in a message, in at most 80 characters."""
    text = repr(data)
    return text if len(text) <= 80 else f"{text[:77]}..."


@cache
def _hint(of: Any, name: str) -> Any:
    """The annotation of one field (evaluating one takes 50 µs). Those of the others may name what only type checkers import."""
    for owner in of.__mro__:
        if name in inspect.get_annotations(owner):
            alone = types.SimpleNamespace(__annotations__={name: inspect.get_annotations(owner)[name]})
            return typing.get_type_hints(alone, vars(sys.modules[owner.__module__]), include_extras=True)[name]
    raise TypeError(f"{of.__name__} has no field {name}")


def _scalar(kind: type | tuple[type, ...], said: str, make: Callable[[Any], Any] = lambda x: x) -> Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
            raise Misread(f"must be {said}, not {shown(data)}")
        return make(data)

    return read


def _bounded_int(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise Misread("must be a whole number of 64 bits")
    return number


def _finite(number: float) -> float:
    try:
        value = float(number)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise Misread("must be a finite number")
    return value


_SCALARS: dict[Any, Reader] = {
    Any: lambda data: data,
    NoneType: _scalar(NoneType, "null"),
    bool: _scalar(bool, "true or false"),
    int: _scalar(int, "a whole number", _bounded_int),
    float: _scalar((int, float), "a number", _finite),
    str: _scalar(str, "text"),
}
_LISTS = (list, tuple, set, frozenset, Sequence, Collection, Iterable)


def _converted(read: Reader) -> Reader:
    def convert(data: Any) -> Any:
        try:
            return read(data)
        except Misread:
            raise
        except (ValueError, TypeError, LookupError) as e:
            raise Misread(f"{shown(data)} is not readable ({e})") from None

    return convert


def _bounded(read: Reader, checks: tuple[Callable[[Any], str], ...]) -> Reader:
    def bounded(data: Any) -> Any:
        value = read(data)
        for check in checks:
            if why := check(value):
                raise Misread(why)
        return value

    return bounded


def _one_of(values: Sequence[Any], meanings: Sequence[Any]) -> Reader:
    def read(data: Any) -> Any:
        for value, meaning in zip(values, meanings, strict=True):
            if type(data) is type(value) and data == value:
                return meaning
        raise Misread(f"must be one of {', '.join(map(str, values))}, not {shown(data)}")

    return read


_PLAIN = Codec()
read, plain = _PLAIN.read, _PLAIN.plain


# JSON text --------------------------------------------------------------------------------------------------
def canon(value: Any) -> str:
    """`value` as one deterministic line of JSON: sorted keys, no spaces, ASCII, no NaN or infinity."""
    return _CANON(value)


def parse(text: str, what: str, error: Callable[[str], Exception] = Misread) -> Any:
    """JSON, strictly: no duplicate keys, no NaN or infinity, integers of 64 bits, no unpaired surrogates, not nested
    deeper than MAX_DEPTH. Raises `error` with a message that names `what`."""
    if text.startswith("\ufeff"):
        raise error(f"{what}: begins with a byte order mark; save it as UTF-8 without one")
    # counted before the decoder recurses: how deep that may go depends on the Python it runs in
    if text.count("[") + text.count("{") > MAX_DEPTH and depth(text) > MAX_DEPTH:
        raise error(f"{what}: nested too deeply")
    try:
        value = _decoder.decode(text)
        if "\\u" in text or not text.isascii():  # an unpaired surrogate parses, but neither SQLite nor a UTF-8 file can hold it
            json.dumps(value, ensure_ascii=False).encode()
    except Misread as e:
        raise error(f"{what}: {e}") from None
    except ValueError as e:
        raise error(f"{what}: not valid JSON ({e})") from None
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
        raise Misread("a key appears twice in one object")
    return out


def _constant(name: str) -> NoReturn:
    raise Misread(f"{name} is not allowed")


def _int(digits: str) -> int:
    if len(digits) > 20 or not INT_MIN <= int(digits) <= INT_MAX:
        raise Misread("an integer does not fit in 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        raise Misread("a number is too large")
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
