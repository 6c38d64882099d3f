"""Targets known by name, and detection of this machine."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tilewright import targets
from tilewright.ir.dtypes import bfloat16, bool_, float16, float32, float64, int8
from tilewright.ir.errors import DeviceError
from tilewright.targets.target import TRAITS, of_cpu


def test_the_usual_processors_are_known() -> None:
    wanted = {
        "znver5",
        "znver4",
        "cascadelake",
        "skylake-avx512",
        "icelake-server",
        "sapphirerapids",
        "haswell",
        "avx2",
        "x86-64-v2",
        "neon",
        "apple-m1",
        "neoverse-n1",
    }
    assert wanted <= set(targets.NAMES)


PROCESSORS = [n for n in targets.NAMES if targets.named(n).lang == "llvm"]
OTHERS = [n for n in targets.NAMES if n not in PROCESSORS]


def test_the_levels_of_x86_go_by_several_names() -> None:
    assert targets.named("v2") is targets.named("x86-64-v2") and targets.named("v4") is targets.named("x86-64-v4")
    assert targets.named("v3") is targets.named("x86-64-v3") is targets.named("avx2") and targets.named("v3").cpu == "x86-64-v3"
    with pytest.raises(DeviceError, match="did you mean 'x86-64-v3'"):
        targets.named("x86_64-v3")


@pytest.mark.parametrize("name", OTHERS)
def test_a_target_with_thread_groups_is_consistent(name: str) -> None:
    t = targets.named(name)
    assert t.name == name and t.lang in ("opencl", "cuda", "hip") and t.groups and pickle.loads(pickle.dumps(t)) == t
    assert t.max_threads >= 256 and t.max_threads % t.warp == 0 and t.shared >= 32 << 10 and t.l1 < t.l2 and t.cores >= 1
    assert (t.kind == "gpu") == (t.vector_bytes == 16) and t.warp in {"opencl": (1,), "cuda": (32,), "hip": (32, 64)}[t.lang]


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_target_is_consistent(name: str) -> None:
    t = targets.named(name)
    assert t.name == name and t.lang == "llvm" and not t.groups and t.kind == "cpu" and pickle.loads(pickle.dumps(t)) == t
    assert t.l1 < t.l2 < t.l3 and t.cores >= 1
    assert (t.vector_bytes, t.registers) == (
        (64, 32) if "avx512" in t.features else (32, 16) if "avx2" in t.features else (16, 32 if "neon" in t.features else 16)
    )


def test_lanes_follow_the_compute_type() -> None:
    wide, narrow = targets.named("cascadelake"), targets.named("neon")
    assert [wide.lanes(d) for d in (float32, float64, float16, bfloat16, int8, bool_)] == [16, 8, 16, 16, 64, 64]
    assert [narrow.lanes(d) for d in (float32, float64, float16)] == [4, 2, 4]
    assert replace(narrow, vector_bytes=4).lanes(float64) == 1


def test_the_key_is_about_code_only() -> None:
    t = targets.named("cascadelake")
    assert t.key == replace(t, cores=1, l3=1, name="mine").key == "llvm:x86_64:cascadelake:avx2+avx512+avx512vnni+f16c+fma+sse41"
    assert len({targets.named(n).key for n in targets.NAMES}) == len(targets.NAMES)
    assert replace(t, features=t.features - {"avx512vnni"}).key != t.key


@pytest.mark.parametrize(("wrong", "near"), [("zenver5", "znver5"), ("cascade-lake", "cascadelake"), ("neoverse", "neoverse")])
def test_a_wrong_name_suggests_the_nearest(wrong: str, near: str) -> None:
    with pytest.raises(DeviceError, match=f"unknown target '{wrong}': did you mean '{near}"):
        targets.named(wrong)


def test_a_name_like_nothing_lists_them_all() -> None:
    with pytest.raises(DeviceError, match="unknown target '%%': use host or one of znver5"):
        targets.named("%%")


def test_llvm_knows_every_processor(capfd: pytest.CaptureFixture[str]) -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    for name in PROCESSORS:
        t = targets.named(name)
        llvm.Target.from_triple(t.triple).create_target_machine(cpu=t.cpu)
    assert "not a recognized processor" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("haswell", set()),
        ("neon", set()),
        ("znver3", {"gathers_slowly", "compares_in_adders", "stores_slowly_by_masks", "selects_at_once"}),
        ("znver4", {"gathers_slowly", "compares_in_adders", "guesses_by_registers", "selects_at_once", "reads_rows_alone"}),
        ("znver5", {"gathers_slowly", "compares_in_adders", "selects_at_once", "streams_anywhere"}),
    ],
)
def test_traits_are_rows_of_one_table(name: str, expected: set[str]) -> None:
    target = targets.named(name)
    assert target.traits == expected
    assert {t.name for t in TRAITS if getattr(target, t.name)} == expected and all(t.source for t in TRAITS)


def test_a_processor_has_its_own_row_or_that_of_its_family() -> None:
    rows = {"znver3": 3, "znver*": 0}
    assert [of_cpu(rows, cpu, -1) for cpu in ("znver3", "znver9", "haswell")] == [3, 0, -1]


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
    *("sse4.1", "popcnt", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"),
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
    monkeypatch.setattr(detect, "_detected", detect._detected.__wrapped__)
    monkeypatch.setattr(detect, "remembered", lambda kind, key, find: find())
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
    monkeypatch.setattr(detect, "affinity", lambda: set(range(8)))
    monkeypatch.setattr(detect, "cgroup_quota", lambda: quota)
    assert targets.usable_cores() == cores


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_a_mask_that_a_filter_of_system_calls_keeps_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(pid: int) -> set[int]:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_getaffinity", forbidden)
    monkeypatch.setattr(detect, "cgroup_quota", lambda: None)
    assert targets.affinity() == set() and targets.usable_cores() == (os.cpu_count() or 1)


def test_affinity_limits_the_cores() -> None:
    script = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); from tilewright import targets; print(targets.usable_cores())"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "1\n"
