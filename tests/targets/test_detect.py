"""Detection of this machine, and what happens where a source is missing."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tilewright import targets

detect = importlib.import_module("tilewright.targets.named")  # (the package's own `named` is a function of it)


@pytest.fixture(autouse=True)
def fresh() -> None:
    detect.machine.cache_clear()


def test_the_machine_is_what_llvm_reports() -> None:
    import llvmlite.binding as llvm

    t = targets.machine()
    flags = llvm.get_host_cpu_features()
    assert t.cpu == llvm.get_host_cpu_name() and t.lang == "llvm" and t is targets.machine()
    if t.arch == "x86_64":
        assert ("fma" in t.features) == flags["fma"] and ("avx512" in t.features) <= flags["avx512f"]
    assert 1 <= t.cores <= (os.cpu_count() or 1) and 4096 <= t.l1 <= t.l2


def test_numpy_is_not_needed() -> None:
    script = "import sys; from tilewright import targets; targets.host(); targets.named('neon'); print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "False\n"


ALL = (
    *("sse4.1", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"),
    *("avx512vpopcntdq", "avx512bitalg", "avxvnni"),
)


@pytest.mark.parametrize(
    ("missing", "kept"),
    [
        ((), {"sse41", "avx2", "fma", "f16c", "avx512", "avx512vnni", "avx512bf16", "avx512popcnt"}),
        (("avx512bf16", "avx512bitalg"), {"sse41", "avx2", "fma", "f16c", "avx512", "avx512vnni"}),
        (("avx512dq",), {"sse41", "avx2", "fma", "f16c", "avxvnni"}),  # a hypervisor that hides a part of AVX-512 hides all of it
        (("fma",), {"sse41", "avx2", "f16c"}),
        (ALL, set()),
    ],
)
def test_flags(missing: tuple[str, ...], kept: set[str]) -> None:
    assert detect.usable(detect.has("x86_64", {f: f not in missing for f in ALL})) == kept


def test_flags_of_other_architectures() -> None:
    assert detect.has("aarch64", {}) == {"neon", "fma", "f16c"}
    assert detect.has("riscv64", {"v": True}) == set()


def test_an_unknown_machine_still_gives_a_target(monkeypatch: pytest.MonkeyPatch) -> None:
    import llvmlite.binding as llvm

    monkeypatch.setattr(llvm, "get_host_cpu_name", lambda: "")
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    monkeypatch.setattr(detect.platform, "machine", lambda: "riscv64")
    monkeypatch.setattr(detect.Path, "read_text", lambda self: (_ for _ in ()).throw(OSError()))
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    t = targets.machine()
    detect.machine.cache_clear()
    assert (t.cpu, t.arch, t.vector_bytes, t.features) == ("generic", "riscv64", 16, frozenset())
    assert (t.l1, t.l2, t.l3) == (32 << 10, 256 << 10, 4 << 20) and t.cores == (os.cpu_count() or 1)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_cache_sizes_come_from_sysfs(tmp_path: Path) -> None:
    entries = [("1", "Data", "48K"), ("1", "Instruction", "32K"), ("2", "Unified", "2M"), ("9", "Unified", "1K"), ("3", "Unified", "odd")]
    for i, entry in enumerate(entries):
        for field, text in zip(("level", "type", "size"), entry, strict=True):
            write(tmp_path / "cpu3" / "cache" / f"index{i}" / field, text + "\n")
    assert detect.cache_sizes(3, (1, 2, 3), str(tmp_path)) == (48 << 10, 2 << 20, 3)
    assert detect.cache_sizes(0, (1, 2, 3), str(tmp_path)) == (1, 2, 3)


def test_the_tightest_quota_of_the_group_and_its_parents_counts(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("0::/a/b\n")
    assert detect.cgroup_quota(str(proc), str(tmp_path)) is None
    write(tmp_path / "cpu.max", "max 100000")
    write(tmp_path / "a/cpu.max", "250000 100000")
    write(tmp_path / "a/b/cpu.max", "400000 100000")
    assert detect.cgroup_quota(str(proc), str(tmp_path)) == 2.5


def test_quota_of_the_first_version(tmp_path: Path) -> None:
    proc = tmp_path / "cgroup"
    proc.write_text("4:memory:/x\n3:cpu,cpuacct:/x\n")
    write(tmp_path / "cpu/x/cpu.cfs_quota_us", "150000")
    write(tmp_path / "cpu/x/cpu.cfs_period_us", "100000")
    assert detect.cgroup_quota(str(proc), str(tmp_path)) == 1.5
    write(tmp_path / "cpu/x/cpu.cfs_quota_us", "-1")
    assert detect.cgroup_quota(str(proc), str(tmp_path)) is None


@pytest.mark.parametrize(("quota", "cores"), [(None, 8), (0.5, 1), (2.0, 2), (2.5, 3), (64.0, 8)])
def test_usable_cores(monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int) -> None:
    monkeypatch.setattr(detect, "_affinity", lambda: set(range(8)))
    monkeypatch.setattr(detect, "cgroup_quota", lambda: quota)
    assert targets.usable_cores() == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_affinity_limits_the_cores() -> None:
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from tilewright import targets; print(targets.usable_cores())"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "1\n"
