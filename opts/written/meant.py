"""What somebody meant who wrote an option by the first letters of its name: `SWgrid` is STAGE of `Wgrid`, and FUSE of k is written `Jk`."""

from __future__ import annotations

from collections.abc import Container

from .syntax import SYNTAX


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
