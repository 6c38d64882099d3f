"""Hand-written kernels (LLVM IR text in the kernel ABI) for the tests of devices."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright import targets
from tilewright.ir import Node, const, int64
from tilewright.program.program import Param, Signature
from tilewright.targets import Target


@dataclass(frozen=True)
class Text:
    text: str
    target: Target
    signature: Signature
    sha: str = "0" * 64


def phase(name: str, body: str) -> str:
    """A function that runs `body` for each item %i, with %b0, %b1 … the buffers; `body` may use labels of its own but
    ends in the block `next`."""
    return f"""
define void @{name}(ptr noalias %bufs, ptr %vars, ptr %scratch, i64 %lo, i64 %hi) nounwind {{
entry:
  %b0 = load ptr, ptr %bufs
  %q1 = getelementptr ptr, ptr %bufs, i64 1
  %b1 = load ptr, ptr %q1
  br label %item
item:
  %i = phi i64 [ %lo, %entry ], [ %i1, %next ]
{body}
  br label %next
next:
  %i1 = add i64 %i, 1
  %more = icmp slt i64 %i1, %hi
  br i1 %more, label %item, label %out
out:
  ret void
}}
"""


COUNT = """
  %p = getelementptr i64, ptr %b0, i64 %i
  %x = load i64, ptr %p
  %y = add i64 %x, 1
  store i64 %y, ptr %p
"""
"""Adds 1 to element i of buffer 0."""

MARK = """
  %p = getelementptr i64, ptr %b0, i64 %i
  %me = ptrtoint ptr %scratch to i64
  store i64 %me, ptr %p
  br label %spin
spin:
  %k = phi i64 [ 0, %item ], [ %k1, %spin ]
  %old = load volatile i64, ptr %p
  %k1 = add i64 %k, 1
  %again = icmp slt i64 %k1, 200000
  br i1 %again, label %spin, label %spun
spun:
"""
"""Writes the address of the worker's scratch to element i, slowly."""


def source(
    body: str = COUNT,
    *,
    items: Node | int = 100,
    name: str = "k",
    params: int = 1,
    symbols: tuple[str, ...] = (),
    scratch: int = 0,
    work: int = 0,
    target: Target | None = None,
) -> Text:
    """One phase with `body`; every parameter is an int64 buffer."""
    return program(
        [phase(f"{name}_p0", body)], [items], name=name, params=params, symbols=symbols, scratch=scratch, work=work, target=target
    )


def program(
    texts: list[str],
    items: list[Node | int],
    *,
    name: str = "k",
    params: int = 1,
    symbols: tuple[str, ...] = (),
    scratch: int = 0,
    work: int = 0,
    target: Target | None = None,
) -> Text:
    """Several phases."""
    grids = tuple(const(i) if isinstance(i, int) else i for i in items)
    buffers = tuple(Param(f"b{i}", int64, (1 << 20,), "out") for i in range(params))
    return Text("\n".join(texts), target or targets.host(), Signature(name, buffers, symbols, grids, scratch, work))
