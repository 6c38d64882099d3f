"""A module of several functions as several modules, so that what candidates have in common is compiled once.

Candidates of a kernel with phases often differ in one of them. LLVM's code generator looks at one function at a time, so the code is
the same; what a phase's function refers to goes with it."""

from __future__ import annotations

import re

_NAME = r'@("[^"]*"|[-\w.$]+)'
_NAMED = re.compile(rf"(?:(?:define|declare)\b[^@\n]*)?{_NAME}")
_LOCAL = re.compile(r"define (?:internal|private)\b")
_VARIABLE = re.compile(rf"{_NAME} = (?!.*\bconstant\b)")


def entities(text: str) -> list[str]:
    """What stands at the top of a module, one after the other: functions with their bodies, and single lines."""
    out: list[str] = []
    body: list[str] = []
    for line in text.splitlines():
        if body or line.startswith("define "):
            body.append(line)
            if line == "}":
                out.append("\n".join(body))
                body = []
        elif line and not line.startswith(";"):
            out.append(line)
    return out + (["\n".join(body)] if body else [])


def parts(text: str) -> tuple[str, ...]:
    """A module for each function that others may call, in order; the module itself where there is one of them, one refers to another, or
    there are variables that they might share."""
    whole = entities(text)
    if any(_VARIABLE.match(e) for e in whole):
        return (text,)
    named = {m[1]: i for i, e in enumerate(whole) if (m := _NAMED.match(e))}
    exported = [i for i, e in enumerate(whole) if e.startswith("define ") and not _LOCAL.match(e)]
    common = [i for i in range(len(whole)) if i not in named.values()]
    needed = {i: [named[n] for n in dict.fromkeys(re.findall(_NAME, e)) if n in named] for i, e in enumerate(whole)}
    out = []
    for start in exported:
        seen, left = {start}, [start]
        while left:
            more = [n for n in needed[left.pop()] if n not in seen]
            seen.update(more)
            left += more
        if len(seen.intersection(exported)) > 1:
            return (text,)
        out.append("\n".join(whole[i] for i in sorted({*seen, *common})) + "\n")
    return tuple(out) if len(out) > 1 else (text,)
