"""Short forms of LLVM IR text, a line each, for the run time that is written by hand (`pool`, `loop_ir`):

%x = get TYPE %table[PLACE]       the word at a place of a table
set TYPE %table[PLACE] = VALUE    the same, written
%row = row WIDTH %table[%i]       the address of a table's i-th row of so many 64-bit words
each %i < %n {                    the lines to its } for i = 0 … n−1"""

from __future__ import annotations

import re

_NUMBER = r"(%?[\w.]+)"
_GET = re.compile(rf" +%(\w+) = get (\w+) %(\w+)\[{_NUMBER}\]")
_SET = re.compile(rf" +set (\w+) %(\w+)\[{_NUMBER}\] = {_NUMBER}")
_ROW = re.compile(rf" +%(\w+) = row (\d+) %(\w+)\[{_NUMBER}\]")
_EACH = re.compile(rf" +each %(\w+) < {_NUMBER} {{")
_LABEL = re.compile(r"([\w.]+):")


def expanded(text: str) -> str:
    """The text in plain LLVM IR."""
    out: list[str] = []
    label = ""
    loops: list[tuple[str, int]] = []
    for number, line in enumerate(text.splitlines()):
        if m := _GET.fullmatch(line):
            name, kind, table, place = m.groups()
            out += [f"  %{name}.at = getelementptr {kind}, ptr %{table}, i64 {place}", f"  %{name} = load {kind}, ptr %{name}.at"]
        elif m := _SET.fullmatch(line):
            kind, table, place, value = m.groups()
            out += [f"  %at.{number} = getelementptr {kind}, ptr %{table}, i64 {place}", f"  store {kind} {value}, ptr %at.{number}"]
        elif m := _ROW.fullmatch(line):
            name, width, table, i = m.groups()
            out += [f"  %{name}.n = mul i64 {i}, {width}", f"  %{name} = getelementptr i64, ptr %{table}, i64 %{name}.n"]
        elif m := _EACH.fullmatch(line):
            i, n = m.groups()
            loops.append((i, len(out) + 2))
            out += [f"  br label %{i}.head", f"{i}.head:", f"  %{i} = phi i64 [0, %{label}], [%{i}.next, %"]
            out += [f"  %{i}.more = icmp slt i64 %{i}, {n}", f"  br i1 %{i}.more, label %{i}.body, label %{i}.out", f"{i}.body:"]
            label = f"{i}.body"
        elif line.strip() == "}" and loops:
            i, phi = loops.pop()
            out[phi] += f"{label}]"
            out += [f"  %{i}.next = add i64 %{i}, 1", f"  br label %{i}.head", f"{i}.out:"]
            label = f"{i}.out"
        else:
            if m := _LABEL.fullmatch(line):
                label = m[1]
            out.append(line)
    return "\n".join(out) + "\n"
