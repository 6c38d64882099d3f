"""Targets known by name."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from tilewright import targets
from tilewright.ir.dtypes import bfloat16, bool_, float16, float32, float64, int8
from tilewright.ir.errors import DeviceError
from tilewright.targets.traits import TRAITS, of_cpu


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
        ("znver4", {"gathers_slowly", "compares_in_adders", "guesses_by_registers", "selects_at_once"}),
        ("znver5", {"gathers_slowly", "compares_in_adders", "selects_at_once"}),
    ],
)
def test_traits_are_rows_of_one_table(name: str, expected: set[str]) -> None:
    target = targets.named(name)
    assert target.traits == expected
    assert {t.name for t in TRAITS if getattr(target, t.name)} == expected and all(t.source for t in TRAITS)


def test_a_processor_has_its_own_row_or_that_of_its_family() -> None:
    rows = {"znver3": 3, "znver*": 0}
    assert [of_cpu(rows, cpu, -1) for cpu in ("znver3", "znver9", "haswell")] == [3, 0, -1]
