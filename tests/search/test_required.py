"""Looking a manifest up without any device."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tilewright import cache, targets
from tilewright.cache import Cache, Row
from tilewright.cache.keys import FIXED
from tilewright.cache.version import tool_version
from tilewright.devices.cpu.device import CpuDevice
from tilewright.ir.errors import DeviceError, UsageError
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply, parse
from tilewright.plan.identity import opts_text
from tilewright.renderers import render
from tilewright.search.manifest.manifest_file import Entry, load
from tilewright.search.manifest.tune_all import check, like, rebuilt, wanted

OPTS = parse([["UPCAST", "n", 8]])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Cache]:
    with cache.open(tmp_path / "cache.db") as c:
        yield c


def entry(tmp_path: Path, target: str) -> Entry:
    """A small matmul for a target described in TOML."""
    (tmp_path / "k.toml").write_text(f'[targets.there]\n{target}\n[[kernel]]\nname = "matmul"\nshapes = ["m=8,n=8,k=8"]\n')
    (found,) = load(tmp_path / "k.toml").entries
    return found


def row(e: Entry, **fields: Any) -> Row:
    """A verified measurement of it, by this version, of the named target."""
    assert e.made is not None
    kernel, want = normalise(e.made), wanted(e)
    given: dict[str, Any] = {
        "kernel": want.kernel, "target": want.target, "threads": want.threads, "compiler": want.compiler, "name": "matmul", "dtype": "float32",
        "opts": opts_text(kernel, OPTS), "t_min": 1e-6, "t_med": 1e-6, "verified": True, "tool_version": tool_version(),
        "source_sha": render(lower(apply(kernel, OPTS, targets.named("znver5"))), targets.named("znver5")).sha,
    }  # fmt: skip
    return Row(**(given | fields))


ZNVER5 = 'device = "cpu"\ntarget = "znver5"\nthreads = 16'


def test_fixed_numerics_are_an_entry_of_their_own(tmp_path: Path, store: Cache) -> None:
    text = f"[targets.there]\n{ZNVER5}\n" + 2 * '[[kernel]]\nname = "matmul"\nshapes = ["m=8,n=8,k=8"]\n' + 'numerics = "fixed"\n'
    (tmp_path / "k.toml").write_text(text)
    free, fixed = load(tmp_path / "k.toml").entries
    assert fixed.made is not None and fixed.made.fixed and "fixed numerics" in fixed.title
    store.record(row(free))
    assert [check(e, store).state for e in (free, fixed)] == ["present", "missing"]
    store.record(row(fixed, policy=FIXED))
    assert check(fixed, store).state == "present" and wanted(fixed).kernel != wanted(free).kernel


def test_present_stale_missing(tmp_path: Path, store: Cache) -> None:
    e = entry(tmp_path, ZNVER5)
    assert check(e, store).state == "missing"
    good = row(e)
    for other in (
        {"threads": 8},
        {"target": "llvm:x86_64:znver4:avx2"},
        {"compiler": "llvmlite-0.1"},
        {"kernel": "x"},
        {"policy": ""},
        {"verified": False},
    ):
        store.record(row(e, **other))
        assert check(e, store).state == "missing", other
    store.record(row(e, tool_version="old", source_sha="0" * 64))
    found = check(e, store)
    assert found.state == "stale" and found.row is not None
    store.record(row(e, t_med=1e-7, opts="[]"))
    assert check(e, store).state == "present"
    assert good.compiler == CpuDevice().compiler_id(), "computed, not looked up"


def test_a_row_of_older_code_is_present_where_it_still_renders_the_same(tmp_path: Path, store: Cache) -> None:
    e = entry(tmp_path, ZNVER5)
    store.record(row(e, tool_version="old"))
    assert check(e, store).state == "present"


def test_a_row_whose_options_do_not_apply_any_more_is_stale(tmp_path: Path, store: Cache) -> None:
    e = entry(tmp_path, ZNVER5)
    store.record(row(e, tool_version="old", opts=[["UPCAST", "nowhere", 8]]))
    assert check(e, store).state == "stale"


def test_patterns_match_what_the_cache_holds(tmp_path: Path, store: Cache) -> None:
    e = entry(tmp_path, 'device = "cuda"\ntarget = "cuda:sm_90a:*"\ncompiler = "nvrtc-13.*"')
    assert check(e, store).state == "missing"
    store.record(row(e, target="cuda:sm_90a:132mp:1:2:fp64", compiler="nvrtc-12.8", threads=1))
    store.record(row(e, target="cuda:sm_80:132mp:1:2:fp64", compiler="nvrtc-13.0", threads=1))
    assert check(e, store).state == "missing"
    store.record(row(e, target="cuda:sm_90a:132mp:1:2:fp64", compiler="nvrtc-13.0", threads=1, tool_version="old"))
    assert check(e, store).state == "stale", "there is no target to render for"
    store.record(row(e, target="cuda:sm_90a:132mp:1:2:fp64", compiler="nvrtc-13.1", threads=1))
    found = check(e, store)
    assert found.state == "present" and found.row is not None and found.row.compiler == "nvrtc-13.1"


def test_any_compiler_where_this_installation_has_no_say(tmp_path: Path, store: Cache) -> None:
    e = entry(tmp_path, 'device = "cpu:c"\ntarget = "znver5"\nthreads = 2')
    assert wanted(e).target == "c:x86_64:znver5:" + "+".join(sorted(targets.named("znver5").features)) and wanted(e).compiler == "*"
    store.record(row(e, compiler="gcc 14.2 [x]"))
    assert check(e, store).state == "present"


def test_a_target_is_made_again_from_a_processors_key(tmp_path: Path, store: Cache) -> None:
    for t in (targets.host(), targets.named("znver5"), targets.named("neon"), replace(targets.named("avx2"), lang="c")):
        made = rebuilt(t.key)
        assert made is not None and made.key == t.key and (made.vector_bytes, made.registers) == (t.vector_bytes, t.registers)
    assert rebuilt(targets.named("sm_80").key) is None and rebuilt("") is None and rebuilt("llvm:x:y") is None
    e = entry(tmp_path, 'target = "llvm:x86_64:*"\nthreads = 1')
    store.record(row(e, target=targets.named("znver5").key, tool_version="old"))
    assert check(e, store).state == "present"


def test_like_takes_only_the_star_as_special() -> None:
    assert like("a+b.c[1]?", "a+b.c[1]?") and like("abc", "a*c") and like("abc", "*") and like("gcc (x)", "gcc*")
    assert not like("ab", "a.") and not like("ab", "a") and not like("a", "a?") and not like("b", "[ab]")


def test_any_number_of_stars_takes_no_time() -> None:
    assert like("a" * 1000 + "b", "*a" * 40 + "*b") and not like("a" * 1000, "*a" * 40 + "*b")
    assert like("a", "**") and not like("ab", "ab*b") and like("abab", "ab*ab") and like("axbxc", "a*b*c") and not like("acb", "a*b*c")


def test_what_the_manifest_must_say(tmp_path: Path, store: Cache) -> None:
    with pytest.raises(UsageError, match="target 'there' needs threads: how many znver5 uses cannot be told here"):
        check(entry(tmp_path, 'target = "znver5"'), store)
    with pytest.raises(UsageError, match="sm_90a is for cuda, not for the device cpu"):
        check(entry(tmp_path, 'target = "sm_90a"\nthreads = 1'), store)
    with pytest.raises(DeviceError, match="unknown target 'znver6': did you mean"):
        check(entry(tmp_path, 'target = "znver6"\nthreads = 1'), store)
    assert wanted(entry(tmp_path, 'device = "cuda:0"\ntarget = "sm_90a"')).threads == 1
    assert wanted(entry(tmp_path, "")).threads == targets.usable_cores()


def test_no_device_is_touched(tmp_path: Path, store: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("asked for a device")

    monkeypatch.setattr("tilewright.devices.registry.get", never)
    monkeypatch.setattr("tilewright.devices.get", never)
    monkeypatch.setattr(CpuDevice, "check", never)
    monkeypatch.setattr(CpuDevice, "build", never)
    for target in (ZNVER5, 'device = "cuda"\ntarget = "sm_90a"', 'device = "opencl"\ntarget = "opencl-gpu"'):
        assert check(entry(tmp_path, target), store).state == "missing"
    e = entry(tmp_path, ZNVER5)
    store.record(row(e, tool_version="old"))
    assert check(e, store).state == "present"
