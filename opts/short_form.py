"""Options as people write them: `Um8 Un32 Tn128 Pn Sb@n`, and `UPCAST(m, 8)` as messages do.

An option is its letter, its name, and its amount or its fields, each after a sign (`Syntax.short`). What this writes
it reads back. A name that ends in a digit has a colon after it where an amount follows (`Un1:64`), and a name that
would be read as something else stands in quotes (`P"Hout"`, which without them is `PHASE(out)`)."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from ..ir.errors import OptError
from .syntax import FLAG, SYNTAX, Scalar, Syntax

NONE = "(none)"
"""What an empty list of options is written as."""
_QUOTED = r'"(?:[^"\\]|\\.)*"'
_NAME = rf'(?:{_QUOTED}|[^\s",()=]+?)'
_NUMBER = r"-?\d+"
_BETWEEN = " \t\r\n,"
_WORD = re.compile(rf'(?:{_QUOTED}|\((?:{_QUOTED}|[^()"])*\)|[^\s,"()])+')
_PART = re.compile(rf'(?:{_QUOTED}|[^,"])+')
_CALL = re.compile(r"([A-Za-z_]+)\((.*)\)")

Plain = tuple[str, str, int | dict[str, Scalar] | None]
"""An option as plain data: its name, what it is on, and its amount, its fields, or None."""


def write(op: str, on: str, arg: int | Mapping[str, Scalar] | None) -> str:
    """One option in short form. `arg`: the amount, or every field, defaults too."""
    syntax = SYNTAX[op]
    want = (op, on, _without_defaults(syntax, arg) if isinstance(arg, Mapping) else arg)
    for colon, quoted in (("", False), (":", False), ("", True)):
        text = _written(syntax, on, arg, colon, quoted)
        if _reads_as(text, want):
            break
    return text


def _reads_as(text: str, want: Plain) -> bool:
    try:
        return _parse_word(text) == want
    except OptError:  # such as a name that begins with a quote, and does not go on as one in quotes does
        return False


def read(text: str) -> list[Plain]:
    """The options of a text in short form, separated by spaces or commas. Raises OptError, which says where it
    cannot be read."""
    if text.strip() in (NONE, NONE[1:-1]):
        return []
    found: list[Plain] = []
    rest = text.strip(_BETWEEN)
    while rest:
        m = _WORD.match(rest)
        if m is None or rest[m.end() : m.end() + 1].strip(_BETWEEN):
            raise OptError(f"option {len(found) + 1}: a quote or bracket is left open in {rest[:60]!r}")
        one = _parse_word(m[0])
        if one is None:
            raise OptError(f"option {len(found) + 1}: cannot read {m[0][:60]!r}{_hint(m[0])}")
        found.append(one)
        rest = rest[m.end() :].lstrip(_BETWEEN)
    if not found:
        raise OptError(f"there are no options in {text!r}; {NONE} is the schedule without any")
    return found


def _written(syntax: Syntax, on: str, arg: int | Mapping[str, Scalar] | None, colon: str, quoted: bool) -> str:
    def name(text: object) -> str:
        return json.dumps(str(text), ensure_ascii=False) if quoted else str(text)

    out = syntax.letter + ("" if syntax.on == "grid" and on == "grid" else name(on))
    if not isinstance(arg, Mapping):
        return out if arg is None else f"{out}{colon}{arg}"
    for sign, field in syntax.short:
        value = arg[field]
        if sign and syntax.defaults.get(field) == value:
            continue
        if sign == FLAG and value == 1:
            out += sign
        else:
            out += (sign or colon) + (name(value) if field in (*syntax.named_fields, *syntax.quoted) else str(value))
    return out


def _parse_word(text: str) -> Plain | None:
    """The option that a word is; None where it is none. Of letters that begin alike the longest wins."""
    call = _CALL.fullmatch(text)
    if call is not None and call[1].upper() in SYNTAX:
        return _call(SYNTAX[call[1].upper()], call[2])
    for syntax in sorted(SYNTAX.values(), key=lambda s: -len(s.letter)):
        m = _pattern(syntax).fullmatch(text) if text.startswith(syntax.letter) else None
        if m is None:
            continue
        on = _unquoted(m["on"]) if m["on"] else "grid"
        if not isinstance(syntax.arg, Mapping):
            return syntax.name, on, _number(m["amount"]) if syntax.arg is int else None
        types = syntax.arg
        given = {f: _value(types[f], m[f], sign) for sign, f in syntax.short if m[f] is not None}
        return syntax.name, on, _without_defaults(syntax, given)
    return None


@functools.lru_cache(maxsize=256)
def _pattern(syntax: Syntax) -> re.Pattern[str]:
    """What one option looks like. Names are as short as the rest allows."""
    out = re.escape(syntax.letter) + f"(?P<on>{_NAME}){'??' if syntax.on == 'grid' else ''}"
    if syntax.arg is int:
        return re.compile(out + f":?(?P<amount>{_NUMBER})")
    for sign, field in syntax.short:
        assert isinstance(syntax.arg, Mapping)
        value = _NUMBER if syntax.arg[field] is int else _NAME
        value += "|" if sign == FLAG else ""
        part = f"{re.escape(sign) or ':?'}(?P<{field}>{value})"
        out += f"(?:{part})?" if field in syntax.defaults else part
    return re.compile(out)


def _value(of: type, text: str, sign: str) -> Scalar:
    if of is int:
        return _number(text) if text or sign != FLAG else 1
    return _unquoted(text)


def _number(text: str) -> int:
    if len(text) > 30:
        raise OptError(f"{text[:10]}... has {len(text)} digits; give a number of elements")
    return int(text)


def _unquoted(text: str) -> str:
    if not text.startswith('"'):
        return text
    try:
        return str(json.loads(text, strict=False))
    except ValueError as e:
        raise OptError(f"the name {text[:60]} is no text in quotes: {e}") from None


def _without_defaults(syntax: Syntax, fields: Mapping[str, Scalar]) -> dict[str, Scalar] | None:
    """The fields that are not at their defaults; None where all are."""
    return {f: v for f, v in fields.items() if syntax.defaults.get(f) != v} or None


def _call(syntax: Syntax, inside: str) -> Plain | None:
    """`UPCAST(m, 8)`, `STAGE(b, at=n)`: what stands between the brackets, or None."""
    words = [w.strip() for w in _PART.findall(inside)]
    if not words or not words[0]:
        return None
    if syntax.on == "grid" and ("=" in words[0] or words[0].isdecimal()):  # what is on the grid may leave that out
        words.insert(0, "grid")
    on, rest = _unquoted(words[0]), words[1:]
    if syntax.arg is None:
        return None if rest else (syntax.name, on, None)
    if syntax.arg is int:
        return (syntax.name, on, _number(rest[0])) if len(rest) == 1 and re.fullmatch(_NUMBER, rest[0]) else None
    assert isinstance(syntax.arg, Mapping)
    given: dict[str, Scalar] = {}
    if syntax.amount and rest and re.fullmatch(_NUMBER, rest[0]):
        given[syntax.amount] = _number(rest.pop(0))
    for word in rest:
        field, _, value = (w.strip() for w in word.partition("="))
        number = syntax.arg.get(field) is int
        if not field or (number and not re.fullmatch(_NUMBER, value)):
            return None
        given[field] = _number(value) if number else _unquoted(value)
    return syntax.name, on, given or None


def _hint(text: str) -> str:
    """What may be meant by a word that is no option: one of its letter, or one whose name begins so."""
    letters = "".join(itertools.takewhile(str.isupper, text))
    known = next(_by_letter(letters), None)
    if known is None:
        named = next((s for s in SYNTAX.values() if len(letters) > 1 and s.letter and s.name.startswith(letters)), None)
        if named is not None:
            return f"; {named.name} is written {example(named).replace(named.on, text[len(letters) :] or named.on, 1)}"
        some = " ".join(f"{s.letter} {s.name}" for s in SYNTAX.values() if s.letter)
        return f"; an option is its letter, a name and an amount, such as Um8 ({some})"
    return f"; {known.name} is written {example(known)}"


def _by_letter(letters: str) -> Iterator[Syntax]:
    for n in range(len(letters), 0, -1):
        yield from (s for s in SYNTAX.values() if s.letter == letters[:n])


def example(syntax: Syntax) -> str:
    """How an option is written, with the names of its fields in place of values: `Sinput@at/order+pad`."""
    on = "" if syntax.on == "grid" else syntax.on
    if not isinstance(syntax.arg, Mapping):
        return f"{syntax.letter}{on}{'' if syntax.arg is None else '8'}"
    fields: Sequence[tuple[str, Any]] = syntax.short
    parts = (sign + ("" if sign == FLAG else "n" if sign.endswith("=") else field) for sign, field in fields)
    return f"{syntax.letter}{on}" + "".join(f"[{p}]" if f in syntax.defaults else p for p, (_, f) in zip(parts, fields, strict=True))


def is_json(text: str) -> bool:
    """Whether a text of options is JSON rather than in short form."""
    return text.lstrip().startswith(("[", "{"))


def meant(letter: str, on: str, amount: object, known: Container[str]) -> str:
    """A hint, '' where there is none: the option whose name begins as the word does that was read as an option of this letter on `on` (with
    `amount`, if it is a number), and which is on one of the names `known`. The longest beginning counts."""
    word = letter + on
    for n in range(len(word) - 1, len(letter), -1):
        begun, rest = word[:n], word[n:]
        for other in SYNTAX.values() if rest in known and begun.isupper() else ():
            if other.name.startswith(begun):
                number = amount if isinstance(amount, int) and other.arg is int else ""
                return f"; {other.name} is written {other.letter}{rest}{number}"
    return ""
