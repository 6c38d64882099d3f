"""Under TILEWRIGHT_TARGET nothing that the cpu devices build holds an instruction beyond it: LLVM's objects, the C
compiler's, the thread pool, the probe."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from thorough import amount
from tilewright import devices, named_kernels, targets
from tilewright.devices import comparing
from tilewright.devices.cpu import device as cpu_device
from tilewright.devices.cpu import pool as pool_ir
from tilewright.devices.cpu.device import _open
from tilewright.devices.cpu.engine import compile_text
from tilewright.heuristics import starts
from tilewright.ir import DeviceError
from tilewright.ir.dtypes import dtype
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.renderers import render
from tilewright.targets import Target

NAMED = [
    ("matmul", "float32"),
    ("matmul", "int8"),
    ("softmax", "float16"),
    ("layernorm_stats", "bfloat16"),
    ("cumsum", "float64"),
    ("transpose", "float32"),
]
LEVELS = ("v2", "v3", "v4")
LATER = re.compile(r"vpdp|dpbf16|pclmul|vgf2p|sha\d|vaes")
"""Instructions of flags that no level has."""

pytestmark = pytest.mark.skipif(shutil.which("objdump") is None, reason="no objdump: install binutils")


@pytest.fixture(params=LEVELS)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Target:
    monkeypatch.setenv("TILEWRIGHT_TARGET", request.param)
    try:
        return targets.host()
    except DeviceError as e:
        pytest.skip(str(e))


def instructions(obj: bytes, folder: Path) -> Iterator[tuple[str, str]]:
    """(encoding, text) of each: 'legacy', 'vex' or 'evex'."""
    (folder / "code.o").write_bytes(obj)
    listing = subprocess.run(["objdump", "-d", "-w", str(folder / "code.o")], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        if found := re.match(r" +[0-9a-f]+:\t((?:[0-9a-f]{2} )+) *\t(.+)", line):
            # in 64-bit code these bytes begin nothing else; no prefix of the old kind may come before them
            yield {"62": "evex", "c4": "vex", "c5": "vex"}.get(found[1][:2], "legacy"), found[2]


def check(objs: list[bytes], target: Target, folder: Path) -> None:
    allowed = {"legacy"} | ({"vex"} if "avx2" in target.features else set()) | ({"evex"} if "avx512" in target.features else set())
    seen = set()
    for obj in objs:
        for encoding, text in instructions(obj, folder):
            assert encoding in allowed and not LATER.match(text), f"{text} at {sorted(target.features)}"
            seen.add(encoding)
    assert seen == allowed, "what is allowed should be used"


def elves_of(obj: bytes) -> tuple[bytes, ...]:
    return _open(obj)[1]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cpu", "cpu:c"])
@pytest.mark.covering
def test_kernels(name: str, target: Target, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    device = devices.get(name)
    try:
        device.check()
    except DeviceError as e:
        pytest.skip(str(e))
    assert device.target == replace(target, lang=device.target.lang)
    objs: list[bytes] = []
    # a C compiler takes its time: at neighbouring levels it gets every other kernel
    step = amount(request, 2, 1) if name == "cpu:c" else 1
    for kernel_name, of in NAMED[LEVELS.index(request.node.callspec.params["target"]) % step :: step]:
        kernel = named_kernels.make(kernel_name, named_kernels.get(kernel_name).odd_shape, of)
        for schedule in starts(kernel, device.target)[: 2 if name == "cpu" else amount(request, 1, 2)]:
            objs += elves_of(device.build(render(lower(apply(kernel, schedule, device.target)), device.target)))
    for of in ("float32", "bfloat16", "int8"):
        made = comparing.by_chunks(dtype(of), 5001, target.vector_bytes // 8)
        objs += elves_of(device.build(render(made, device.target)))
    check(objs, target, tmp_path)


def test_what_runs_and_probes_them(target: Target, tmp_path: Path) -> None:
    texts = [cpu_device.fma(target, bits) for bits in (32, 64)] + [cpu_device.stream(target, kind) for kind in cpu_device.KINDS]
    objs = [compile_text(text, target, native=True) for text in texts]
    check(objs, target, tmp_path)
    pool = compile_text(pool_ir.pool_text(target.arch), target, native=True, outside=pool_ir.EXTERNALS)
    check([*objs, pool], target, tmp_path)
