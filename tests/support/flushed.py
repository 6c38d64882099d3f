"""A thread in which subnormal numbers count as 0, as libraries linked with -ffast-math leave it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import pytest
from tilewright import targets

_TEXT = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define i32 @exchange(i32 %mode) {
  %p = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %p)
  %old = load i32, ptr %p
  store i32 %mode, ptr %p
  call void @llvm.x86.sse.ldmxcsr(ptr %p)
  ret i32 %old
}
"""
_FLUSH = 0x8040
"""Results that are subnormal become 0, and operands that are count as 0."""


@cache
def _exchange() -> tuple[Any, Any]:
    """(the engine that owns the code, a function that sets the mode and returns what it was)."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_TEXT), llvm.Target.from_default_triple().create_target_machine())
    return engine, ctypes.CFUNCTYPE(ctypes.c_uint32, ctypes.c_uint32)(engine.get_function_address("exchange"))


@contextmanager
def flushed() -> Iterator[None]:
    """Within, this thread takes subnormals for 0."""
    if targets.host().arch != "x86_64":
        pytest.skip("the mode is set by an instruction of x86-64")
    _, exchange = _exchange()
    before = exchange(0x1F80 | _FLUSH)
    try:
        yield
    finally:
        exchange(before)
