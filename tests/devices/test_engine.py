"""LLVM modules of several functions are compiled one by one; the symbols of an object are read; objects are linked without LLVM."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_kernels import phase, source
from tilewright import devices, named_kernels
from tilewright.devices import Device
from tilewright.devices.cpu import engine
from tilewright.devices.cpu.device import _open
from tilewright.devices.cpu.engine import entities, parts
from tilewright.devices.cpu.linker import Linked, elf_symbols
from tilewright.ir.errors import BuildError
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.renderers import Source, render

FIRST, SECOND = "define void @k_p0(ptr %a) #0 {\n", "define void @k_p1(ptr %a) #0 {\n"
END = "  ret void\n}\n"
ATTRIBUTES = "attributes #0 = { nounwind }\n"


def split_scan(copies: int = 8) -> Source:
    """A scan in three phases; `copies` are of the last alone."""
    cpu = devices.get("cpu").target
    kernel = normalise(named_kernels.make("cumsum", {"m": 2, "n": 256}))
    return render(lower(apply(kernel, parse([["SPLIT", "n", 4], ["CACHE", "y", {"policy": "stream"}], ["UPCAST", "n", copies]]), cpu)), cpu)


def functions(assembly: str) -> dict[str, str]:
    """The code of each function, without the numbers of labels and sections, and without the constants before it."""
    out = {}
    for m in re.finditer(r"^(\w[\w.]*):\n(.*?)^\.Lfunc_end", assembly, re.MULTILINE | re.DOTALL):
        out[m[1]] = re.sub(r"\.L(BB|CPI|tmp)\d+_?", r".L\1_", m[2])
    return out


def test_each_part_is_a_module_with_what_it_needs() -> None:
    text = (
        "; a comment\n@table = internal constant [1 x float] zeroinitializer\n"
        f"{FIRST}  call void @inner(ptr @table)\n{END}define internal void @inner(ptr %a) #0 {{\nentry:\n{END}"
        f"{SECOND}{END}declare float @llvm.fabs.f32(float)\n{ATTRIBUTES}"
    )
    one, two = parts(text)
    assert [e.split("(")[0] for e in entities(one)][:3] == [
        "@table = internal constant [1 x float] zeroinitializer",
        FIRST.split("(")[0],
        "define internal void @inner",
    ]
    assert entities(two) == [SECOND + END.rstrip("\n"), ATTRIBUTES.rstrip("\n")]
    for part in (one, two):
        engine.compile_text(part, devices.get("cpu").target, native=True)


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST}{END}{ATTRIBUTES}",
        f"{FIRST}  call void @k_p1(ptr %a)\n{END}{SECOND}{END}{ATTRIBUTES}",
        f"@state = internal global i32 0\n{FIRST}{END}{SECOND}{END}{ATTRIBUTES}",
    ],
    ids=["one function", "a call", "a variable"],
)
def test_what_belongs_together_stays_together(text: str) -> None:
    assert parts(text) == (text,)


def test_the_code_is_the_same() -> None:
    source = split_scan()
    whole = functions(engine.assembly_of(source.text, source.target))
    apart = [functions(engine.assembly_of(p, source.target)) for p in parts(source.text)]
    assert len(apart) == 3
    assert {k: v for f in apart for k, v in f.items()} == whole


def test_what_two_candidates_have_in_common_is_compiled_once() -> None:
    cpu, (a, b) = devices.get("cpu"), (split_scan(4), split_scan(8))
    common = set(parts(a.text)) & set(parts(b.text))
    assert common and len(parts(a.text)) == len(parts(b.text)) == 3
    engine._compiled_part.cache_clear()
    objects = [_open(cpu.build(s))[1] for s in (a, b)]
    assert [len(o) for o in objects] == [3, 3]
    assert engine._compiled_part.cache_info().misses == 6 - len(common)


def test_an_object_of_several_parts_is_checked_whole() -> None:
    obj = devices.get("cpu").build(split_scan())
    with pytest.raises(BuildError, match="damaged"):
        _open(obj[:-1])


@pytest.mark.parametrize("sizes", [None, {}, [], ["a"], [1.5, 2.5], [-1, 7], [10**9], 3])
def test_damaged_lengths_of_parts_are_damage(sizes: Any) -> None:
    """No other exception ends a run: what is damaged is built again."""
    magic, line, code = devices.get("cpu").build(split_scan()).split(b"\n", 2)
    head = json.dumps({**json.loads(line), "sizes": sizes}).encode()
    with pytest.raises(BuildError, match="damaged"):
        _open(b"\n".join((magic, head, code)))


def test_defined_functions_only(cpu: Device) -> None:
    (code,) = _open(cpu.build(source()))[1]
    assert elf_symbols(code) == ({"k_p0"}, frozenset())


@pytest.mark.parametrize("size", [0, 3, 40, 64, 200])
def test_cut_objects_are_errors(cpu: Device, size: int) -> None:
    (code,) = _open(cpu.build(source()))[1]
    with pytest.raises(BuildError, match="object"):
        elf_symbols(code[:size])


def test_internal_functions_are_not_entries(cpu: Device) -> None:
    import dataclasses

    text = source()
    text = dataclasses.replace(
        text, text=text.text + phase("inner", "").replace("define void", "define internal void") + "@keep = global ptr @inner\n"
    )
    defined, undefined = elf_symbols(_open(cpu.build(text))[1][0])
    assert defined == {"k_p0"} and not undefined


WHOLE = """
@table = internal constant [2 x i64] [i64 30, i64 12], align 16
@kept = global i64 0, align 128
@room = internal global [4096 x i64] zeroinitializer, align 64
declare i64 @outer(i64)
define internal i64 @own(i64 %i) noinline {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @sum(i64 %x) {
  %a = call i64 @own(i64 0)
  %b = call i64 @own(i64 1)
  %c = add i64 %a, %b
  %k = load i64, ptr @kept
  %k1 = add i64 %k, 1
  store i64 %k1, ptr @kept
  %last = getelementptr i64, ptr @room, i64 4095
  store i64 %k1, ptr %last
  %d = call i64 @outer(i64 %x)
  %e = add i64 %c, %d
  %f = add i64 %e, %k1
  ret i64 %f
}
"""
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


@pytest.mark.parametrize("by_llvm", [False, True])
def test_constants_variables_and_functions_from_outside(by_llvm: bool, cpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    if by_llvm:
        monkeypatch.setattr("tilewright.devices.cpu.engine.linkable", lambda objects: False)
    outer = FUNCTION(lambda x: 100 * x)
    obj = engine.compile_text(WHOLE, cpu.target, native=True, outside=["outer"])
    code = engine.Code([obj, engine.compile_text("define i64 @other(i64 %x) {\n  ret i64 %x\n}", cpu.target, native=True)], ("sum", "other"),
                {"outer": ctypes.cast(outer, ctypes.c_void_p).value or 0})  # fmt: skip
    total, other = (FUNCTION(code.address(n)) for n in ("sum", "other"))
    assert [total(1), total(2), other(7)] == [143, 244, 7]
    code.close()


def test_objects_that_are_not_whole_are_refused(cpu: Device) -> None:
    obj = engine.compile_text(WHOLE, cpu.target, native=True, outside=["outer"])
    with pytest.raises(BuildError, match="undefined symbols outer"):
        engine.Code([obj], ("sum",))
    with pytest.raises(BuildError, match="does not define product"):
        engine.Code([obj], ("product",), {"outer": 1})
    for size in range(64, len(obj), 97):
        with pytest.raises(BuildError):
            engine.Code([obj[:size]], ("sum",), {"outer": 1})


def test_code_cannot_be_written_and_data_cannot_be_run(cpu: Device) -> None:
    linked = Linked([engine.compile_text(WHOLE, cpu.target, native=True, outside=["outer"])], {"outer": 1})
    at = linked.addresses["sum"]
    rights = [line.split()[1] for line in Path("/proc/self/maps").read_text().splitlines()
              if int(line.split("-")[0], 16) <= at < int(line.split("-")[1].split()[0], 16)]  # fmt: skip
    assert rights == ["r-xp"]


@pytest.mark.slow
def test_a_process_whose_kernels_are_known_does_not_load_llvm() -> None:
    script = """
import sys
import numpy as np, tilewright as tw
f = tw.jit(lambda x: (x * 2).sum())
assert f(tw.Tensor(np.ones(100_000, "float32"))).item() == 200_000
print("llvmlite.binding" in sys.modules)
"""
    said = [subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout for _ in range(2)]
    assert said[1] == "False\n"
