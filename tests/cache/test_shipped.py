"""Bundles that come with the package: what answers, what is only near, and what a broken one does."""

from __future__ import annotations

import runpy
from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import pytest
from tilewright import named_kernels
from tilewright.cache import Cache, CacheWarning, Key, Row, bundles, tool_version
from tilewright.cache.layers import SHIPPED_RUN, Layers, Shipped
from tilewright.cli.cache import query
from tilewright.cli.report import entries
from tilewright.ir import Kernel
from tilewright.ir.errors import UsageError
from tilewright.ir.normal_form import canonical, normalise
from tilewright.plan import canonical_of
from tilewright.search.warm_start import earlier_measurements

ZEN4 = "llvm:x86_64:znver4:avx2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "schedules").mkdir()
    return tmp_path / "schedules"


def opened(folder: Path) -> Cache:
    return Cache(Layers(str(folder.parent / "cache.db"), (Shipped(folder),), named=False))


def test_rows_of_every_kind_answer_their_own_keys(folder: Path, make_row, key: Key) -> None:
    bundles.write([make_row(), make_row(kernel="other")], folder / "znver5.jsonl")
    bundles.write([make_row(target=ZEN4, t_med=5e-5)], folder / "znver4.jsonl")
    with opened(folder) as c:
        assert [c.best(k).t_med for k in (key, replace(key, target=ZEN4), replace(key, kernel="other"))] == [1e-4, 5e-5, 1e-4]
        assert c.best(replace(key, kernel="none")) is None and c.best(replace(key, threads=3)) is None
        assert c.standing(c.best(key)) == "unverified", "nobody timed it here"
        assert len(c.rows()) == 3 and len(c.rows(target=ZEN4)) == 1
        assert c.is_empty(), "no neighbours are looked for"
        assert not (folder.parent / "cache.db").exists()


def test_commands_list_what_was_measured_and_not_what_ships(folder: Path, make_row) -> None:
    bundles.write([make_row(run_id=SHIPPED_RUN)], folder / "znver5.jsonl")
    with opened(folder) as c:
        c.record([make_row(kernel="other")])
        asked = Namespace(**dict.fromkeys(("kernel", "shape", "dtype", "device", "threads", "since", "strategy")))
        assert len(c.rows()) == 2
        assert [[r.key.kernel for r in listed(c, asked)] for listed in (query.select, entries.measurements)] == [["other"], ["other"]]


def test_siblings_are_other_processors_threads_and_compilers_the_nearest_first(folder: Path, make_row, key: Key) -> None:
    others = {
        "compiler": make_row(compiler="llvmlite-0.51"),
        "features": make_row(target=f"{key.target}+fma"),
        "zen4": make_row(target=ZEN4),
        "threads": make_row(target=ZEN4, threads=16),
        "arm": make_row(target="llvm:aarch64:apple:neon"),
        "policy": make_row(policy="FIXED"),
        "failed": make_row(target="llvm:x86_64:znver3:avx2", verified=False),
    }
    bundles.write(others.values(), folder / "kinds.jsonl")
    with opened(folder) as c:
        assert [next(n for n, o in others.items() if o.key == r.key) for r in c.siblings(key)] == [
            "compiler",
            "features",
            "zen4",
            "threads",
        ]
        c.record(make_row(target="llvm:x86_64:znver2:avx2"))
        assert len(c.siblings(key)) == 4, "of what is shipped only"


def test_nothing_that_ships_was_measured_or_pinned_here(folder: Path, make_row, key: Key) -> None:
    pinned = make_row(provenance={"machine": {}, "pinned": True}, tool_version=tool_version())
    slower = make_row(t_med=2e-4, t_min=2e-4, opts=[["UPCAST", "a0", 4]], threads=3)
    bundles.write([pinned, slower, replace(slower, opts=pinned.opts, t_med=1e-4, t_min=1e-4)], folder / "kind.jsonl")
    names = canonical(named_kernels.make("matmul", {"m": 64, "n": 64, "k": 64}))
    with opened(folder) as c:
        assert not c.best(key).pinned and all(r.imported for r in c.rows())
        assert not earlier_measurements(c, key, names).by_opts
        (sibling,) = [r for r in c.siblings(key) if r.threads == 3]
        assert sibling.t_med == 1e-4, "the best of each key"


@pytest.mark.parametrize("text", ["{}\n", '{"schema":1,"tilewright":"bundle"}\n{"kernel":"' + "k" * 8 + '"}\n', "garbage\n"])
def test_a_file_that_is_no_bundle_is_ignored_with_a_warning(folder: Path, make_row, key: Key, text: str) -> None:
    (folder / "kind.jsonl").write_text(text)
    with opened(folder) as c, pytest.warns(CacheWarning, match=r"ignoring the cache .*schedules.*kind\.jsonl"):
        assert c.best(key) is None
        assert c.siblings(key) == []


def test_what_a_run_of_make_ship_had_no_time_for_stays_shipped(make_row, capsys: pytest.CaptureFixture[str]) -> None:
    kept = runpy.run_path(str(Path(__file__).resolve().parents[2] / "scripts/ship.py"))["kept"]
    kernel = named_kernels.make("softmax", {"m": 4, "n": 8})
    made = canonical_of(normalise(kernel)).hash

    def kernel_of(row: Row) -> Kernel:
        if row.name == "gone":
            raise UsageError("there is no kernel called gone")
        return kernel

    one, two = make_row(kernel=made), make_row(kernel=made, threads=8)
    before = [one, two, make_row(kernel="otherwise today"), make_row(kernel=made, threads=9, name="gone")]
    assert kept(before, [], kernel_of) == [one, two]
    assert "gone, {" in capsys.readouterr().out
    assert kept(before, [replace(two, compiler="another", opts=one.opts)], kernel_of) == [one], "it was tuned again"
