"""Arguments of the public functions: one of a wrong type is told at once, with what it should be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

from .errors import UsageError

LARGEST = (1 << 63) - 1


class ArgumentKind(NamedTuple):
    """`fits`: whether a value, which is not None, will do as far as its type says; `what`: what to give."""

    fits: Callable[[Any], bool]
    what: str


def whole(least: int) -> Callable[[Any], bool]:
    """Whole numbers of 64 bits from `least` on: no bool, no float, no text."""
    return lambda v: isinstance(v, Integral) and not _flag(v) and least <= int(v) <= LARGEST


def _flag(v: Any) -> bool:
    return isinstance(v, bool) or type(v).__name__ in ("bool", "bool_")


def _number(v: Any) -> bool:
    return isinstance(v, Real) and not _flag(v)


def _text(v: Any) -> bool:
    return isinstance(v, str) and bool(v)


def _has(*names: str) -> Callable[[Any], bool]:
    """An object of ours, which is told by what it can do: this folder knows none of them."""
    return lambda v: all(hasattr(v, n) for n in names)


def _any_of(*fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda v: any(f(v) for f in fits)


def _texts(v: Any) -> bool:
    return isinstance(v, str) or (isinstance(v, Iterable) and not isinstance(v, (bytes, Mapping)) and all(isinstance(x, str) for x in v))


def _named(v: Any) -> bool:
    return isinstance(v, Mapping) and all(isinstance(k, str) for k in v)


def _numbered(v: Any) -> bool:
    return _named(v) and all(isinstance(x, Integral) and not _flag(x) for x in v.values())


def _path(v: Any) -> bool:
    return isinstance(v, (str, os.PathLike))


_COUNT = ArgumentKind(whole(1), "a whole number of at least 1")
_YES = ArgumentKind(_flag, "True or False")
_NAME = ArgumentKind(_text, "a name")
WANTED: dict[str, ArgumentKind] = {
    "kernel": ArgumentKind(_any_of(_text, _has("inputs", "outputs", "symbols")), "a kernel's name, my.py:function, or a Kernel"),
    "shape": ArgumentKind(_named, 'a mapping of sizes by name, such as {"m": 64, "n": 64}'),
    "dtype": ArgumentKind(
        _any_of(_text, lambda v: isinstance(v, type), _has("name", "itemsize"), _has("name", "np")), 'an element type, such as "float32"'
    ),
    "device": ArgumentKind(_any_of(_text, _has("target", "load")), 'a device\'s name, such as "cpu", or a Device'),
    "budget": ArgumentKind(_any_of(_text, _number, _has("seconds", "trials")), 'seconds, or a text such as "30s"'),
    "trials": _COUNT,
    "threads": _COUNT,
    "patience": _COUNT,
    "strategy": _NAME,
    "start": ArgumentKind(_text, 'auto, none, or a schedule such as "Um8 Un32 Pn"'),
    "random_seed": ArgumentKind(whole(0), "a whole number of 64 bits that is not negative"),
    "cache": ArgumentKind(_any_of(_path, _has("answers", "record")), "a path, a URL, or an open Cache"),
    "retune": _YES,
    "exact_only": _YES,
    "stop_at": ArgumentKind(_number, "a fraction of the roofline in (0, 1]"),
    "since": ArgumentKind(lambda v: _number(v) and abs(v) < 1e12, "a moment on time.monotonic"),
    "check": _YES,
    "vars": ArgumentKind(_numbered, 'a mapping of whole numbers by symbol, such as {"n": 64}'),
    "study": ArgumentKind(_text, "a URL such as sqlite:///study.db, or the path of a journal file"),
    "allow": ArgumentKind(_texts, 'a list of effects, such as ["downconvert"]'),
    "objective": ArgumentKind(_texts, 'a name such as "time", or two'),
    "policy": ArgumentKind(_text, 'text such as "memory" or "cache,busy"'),
    "opts": ArgumentKind(
        _any_of(lambda v: isinstance(v, str), lambda v: isinstance(v, Sequence) and not isinstance(v, bytes)), "a schedule"
    ),
    "scratch_limit": ArgumentKind(whole(0), "a number of bytes"),
    "progress": ArgumentKind(_has("phase"), "an object with the methods of `search.Progress`"),
    "measuring": ArgumentKind(callable, "a function that makes a measurer"),
    "store": ArgumentKind(_has("put_source", "put_object"), "an Artefacts"),
    "function": ArgumentKind(callable, "a function of tensors"),
    "donate": ArgumentKind(_texts, "names of arguments"),
    "symbols": ArgumentKind(_named, 'a mapping such as {"x": {0: tw.Var("n", 1, 4096)}}'),
    "first": ArgumentKind(
        lambda v: isinstance(v, Sequence) and not isinstance(v, (str, bytes)) and all(map(_named, v)), "a list of configurations"
    ),
}
"""By the name of an argument, which means the same wherever it stands."""
NEVER_NONE = ("kernel", "device", "start", "random_seed", "retune", "exact_only", "allow", "objective", "donate", "symbols")
"""Arguments for which None stands for nothing."""


def check(call: str, **given: Any) -> None:
    """Raise UsageError for the first argument of `call` that is not what its name asks for."""
    for name, value in given.items():
        wanted = WANTED[name]
        if value is None and name not in NEVER_NONE:
            continue
        if value is None or not wanted.fits(value):
            shown = repr(value) if isinstance(value, (str, bool, type(None))) else _short(value)
            raise UsageError(f"{call}({name}={shown}): give {wanted.what}")


def check_all(call: str, given: Mapping[str, Any], **choices: Sequence[str]) -> None:
    """The same of all arguments of a call, as `locals()` has them where it begins. `choices`: those that are one of some texts, which a
    name stands for in this call only."""
    for name, among in choices.items():
        one_of(call, name, given[name], among)
    check(call, **{n: v for n, v in given.items() if n not in choices})


def one_of(call: str, name: str, value: Any, among: Sequence[str]) -> None:
    """Raise UsageError for a value that is none of these texts."""
    if not isinstance(value, str) or value not in among:
        raise UsageError(f"{call}({name}={_short(value)}): give one of {', '.join(among)}")


def _short(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # an object of somebody else's, which may not even be printed; or a number of thousands of digits
        return f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
