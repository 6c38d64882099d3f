"""TILEWRIGHT_TARGET: this machine, lowered to another one."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator

import pytest
from tilewright import targets
from tilewright.ir.errors import DeviceError
from tilewright.search.result import Job
from tilewright.targets import Target

here = importlib.import_module("tilewright.targets.named")  # (the package's own `named` is a function of it)
V3 = frozenset({"sse41", "avx2", "fma", "f16c"})
ALL = V3 | {"avx512", "avx512vnni", "avx512bf16", "avx512popcnt", "avxvnni"}


@pytest.fixture(autouse=True)
def on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine that has everything."""
    machine = Target("sapphirerapids", "llvm", "x86_64", "sapphirerapids", here.usable(ALL), 64, 32, 3, 1 << 15, 1 << 20, 1 << 25)
    monkeypatch.setattr(here, "machine", lambda: machine)
    monkeypatch.setattr(here, "features", lambda: ALL)
    here._lowered.cache_clear()
    yield
    here._lowered.cache_clear()


@pytest.fixture
def lower(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Target]:
    def to(name: str) -> Target:
        monkeypatch.setenv("TILEWRIGHT_TARGET", name)
        return targets.host()

    return to


@pytest.mark.parametrize("name", ["", " ", "host"])
def test_without_it_the_machine_is_used_whole(name: str, lower: Callable[[str], Target]) -> None:
    assert lower(name) is here.machine() and targets.lowered() == ""


@pytest.mark.parametrize(
    ("name", "features", "registers"),
    [
        ("v2", {"sse41"}, (16, 16)),
        ("x86-64-v3", V3, (32, 16)),
        ("avx2", V3, (32, 16)),
        ("znver3", V3, (32, 16)),
        ("alderlake", V3 | {"avxvnni"}, (32, 16)),  # which the whole machine has no use for
        ("v4", V3 | {"avx512"}, (64, 32)),
        ("cascadelake", V3 | {"avx512", "avx512vnni"}, (64, 32)),
    ],
)
def test_it_takes_features_away_and_leaves_the_rest(
    name: str, features: set[str], registers: tuple[int, int], lower: Callable[[str], Target]
) -> None:
    t, whole = lower(name), here.machine()
    assert t.features == features and (t.vector_bytes, t.registers) == registers and targets.named("host") == t
    assert (t.name, t.cpu, t.cores, t.l1, t.l2, t.l3) == (whole.name, whole.cpu, whole.cores, whole.l1, whole.l2, whole.l3)
    assert targets.lowered() == f"TILEWRIGHT_TARGET={name}"
    assert t.key not in (whole.key, targets.named(name).key), "measurements of it are its own"


def test_the_names_of_one_level_are_one_target(lower: Callable[[str], Target]) -> None:
    assert lower("v3") == lower("x86-64-v3") == lower("haswell")


def test_what_takes_nothing_away_is_not_lowered(lower: Callable[[str], Target]) -> None:
    assert lower("znver5").key == here.machine().key and targets.lowered() == ""


def test_it_never_raises(monkeypatch: pytest.MonkeyPatch, lower: Callable[[str], Target]) -> None:
    monkeypatch.setattr(here, "features", lambda: V3)
    with pytest.raises(
        DeviceError,
        match=r"TILEWRIGHT_TARGET=znver4 needs avx512, avx512bf16, avx512popcnt, avx512vnni, which this machine .* has not.*older",
    ):
        lower("znver4")
    assert lower("v3").features == V3


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x86_64-v3", "TILEWRIGHT_TARGET: unknown target 'x86_64-v3': did you mean 'x86-64-v3'"),
        ("neon", "TILEWRIGHT_TARGET=neon is aarch64 and this machine is x86_64"),
        ("sm_80", "TILEWRIGHT_TARGET=sm_80 is not a processor"),
        ("opencl-cpu", "TILEWRIGHT_TARGET=opencl-cpu is not a processor"),
    ],
)
def test_what_is_no_processor_of_this_kind_is_refused(name: str, said: str, lower: Callable[[str], Target]) -> None:
    with pytest.raises(DeviceError, match=said):
        lower(name)


def test_commands_that_do_the_same_say_it(lower: Callable[[str], Target]) -> None:
    lower("v3")
    assert (
        targets.command_prefix("cpu") == targets.command_prefix("cpu:c") == ["TILEWRIGHT_TARGET=v3"]
        and targets.command_prefix("opencl") == []
    )
    lower("znver5")
    assert targets.command_prefix("cpu") == []


def test_a_search_is_repeated_as_it_was(lower: Callable[[str], Target]) -> None:
    lower("v3")
    words = Job("matmul", {"m": 8}, "float32", "cpu", 1, "beam").reproduce()
    assert (
        words.startswith("TILEWRIGHT_TARGET=v3 tune run --kernel matmul --shape m=8 ")
        and "TILEWRIGHT" not in Job("add", {}, "", "opencl", 1, "beam").reproduce()
    )
