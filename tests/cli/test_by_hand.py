"""Schedules by hand: `tune bench`, `tune pin`, `tune show --diff`, `tune explain` on a GPU, `best(opts=...)`, and what does not fit."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilewright
from cuda_build import needs_nvdisasm, needs_nvrtc
from fake_gpu import SPEC
from tilewright.cache import open as open_cache
from tilewright.cli.terminal.live import candidate_line
from tilewright.devices.cuda import machine_code as sass
from tilewright.ir import DeviceError
from tilewright.ir.errors import OptError, UsageError
from tilewright.measure.outcome import Measurement, Outcome
from tilewright.opts import Opt, parse
from tilewright.search.option_worth import Explanation

from .conftest import Tune

ADD = ["add", "--shape", "m=4,n=64", "--threads", "1"]


@pytest.mark.slow
def test_bench_verifies_and_compares_in_pairs(tune: Tune) -> None:
    done = tune("bench", *ADD, "--opts", "Um_n16", "--opts", "UPCAST(m_n, 32)", "--opts", "Uq4", "--rounds", "3", "--format", "json")
    assert done.code == 4, "one of them is illegal"
    said = json.loads(done.out)
    a, b, c = said["schedules"]
    assert [s["name"] for s in (a, b, c)] == ["A", "B", "C"] and said["first"] == "A"
    assert a["short"] == "Um_n16" and a["beside"] is None and a["t_min"] > 0
    assert b["beside"]["rounds"] == 3 and b["beside"]["noise"] >= 0 and b["beside"]["factor"] > 0 and b["outcome"] == "ok"
    assert c["outcome"] == "illegal" and "no axis 'q'" in c["why"] and c["beside"] is None
    done = tune("bench", *ADD, "--opts", "Um_n16", "--against", "start", "--rounds", "3")
    assert done.code == 0 and "beside start" in done.out and "paired rounds" in done.out


def test_bench_needs_two(tune: Tune) -> None:
    done = tune("bench", *ADD, "--opts", "Um_n16")
    assert done.code == 2 and "give two schedules to compare" in done.err
    assert "NumPy has no call or two for attention" in tune("bench", "attention", "--opts", "best", "--against", "numpy").err


@pytest.mark.slow
def test_a_pinned_schedule_answers_until_it_is_let_go(tune: Tune, cache_file: Path) -> None:
    assert tune("unpin", *ADD).code == 5
    assert tune("run", *ADD, "--mode", "record", "--quiet").code == 0
    with open_cache(cache_file) as store:
        before = [r.digest for r in store.rows()]
    wrong = tune("pin", *ADD, "--opts", "Uq4")
    assert wrong.code == 2 and "this schedule does not fit add m=4,n=64" in wrong.err and "no axis 'q'" in wrong.err
    with open_cache(cache_file) as store:
        assert [r.digest for r in store.rows()] == before, "nothing is written where it does not fit"
    done = tune("pin", *ADD, "--opts", "Um_n4")
    assert done.code == 0 and "add m=4,n=64 float32 on cpu, 1 thread: pinned" in done.out and "until: tune unpin add" in done.out
    assert "Um_n4" in tune("show", *ADD).out and "pinned by hand" in tune("show", *ADD).out
    assert "cached, pinned by hand" in tune("run", *ADD).out
    assert json.loads(tune("report", "add", "--format", "json").out)[0]["pinned"] is True
    compiled = tilewright.best("add", {"m": 4, "n": 64}, threads=1, cache=cache_file)
    assert compiled.opts == parse("Um_n4") and compiled.origin == "exact"
    assert tune("pin", *ADD, "--opts", "Um_n8").code == 0 and "Um_n8" in tune("show", *ADD).out
    with open_cache(cache_file) as store:
        assert sum(r.pinned for r in store.rows()) == 1 and set(before) <= {r.digest for r in store.rows()}
    assert tune("unpin", *ADD).code == 0 and "pinned" not in tune("show", *ADD).out
    with open_cache(cache_file) as store:
        assert {"Um_n4", "Um_n8"} <= {tilewright.opts.short(parse(r.opts_display)) for r in store.rows()}, "measurements stay"


@pytest.mark.slow
def test_a_schedule_from_python() -> None:
    compiled = tilewright.best("add", {"m": 4, "n": 64}, threads=1, opts="Um_n16")
    a = np.ones((4, 64), np.float32)
    assert compiled.origin == "given" and "given" in repr(compiled) and (compiled(a, a) == 2).all()
    with pytest.raises(OptError, match="no axis 'q'"):
        tilewright.best("add", {"m": 4, "n": 64}, opts=[["UPCAST", "q", 4]])
    with pytest.raises(OptError, match="cannot read 'hello'"):
        tilewright.best("add", {"m": 4, "n": 64}, opts="hello")
    with pytest.raises(UsageError, match="use one of them"):
        tilewright.best("add", {"m": 4, "n": 64}, opts="Um_n4", exact_only=True)


def test_what_differs_between_two_schedules(tune: Tune) -> None:
    shape = ["matmul", "--shape", "m=8,n=32,k=16", "--target", "avx2"]
    done = tune("show", *shape, "--diff", "Um4 Un16 Pm", "Um4 Pm Un8")
    assert done.code == 0, done.err
    assert "only in A   Un16" in done.out and "only in B   Un8" in done.out and "by the model" in done.out
    assert "measured      A never, B never" in done.out and "\nsource: " in done.out and "-      n.u 16  lanes" in done.out
    same = tune("show", *shape, "--diff", "Um4 Un16", "Un16 Um4").out
    assert "the same options in another order" in same and "both render to the same source" in same and "source: the same" in same
    assert tune("show", *shape, "--diff", "best", "Um4").code == 2
    only = tune("show", *shape, "--diff", "Um4", "Um2", "--stage", "schedule").out
    assert "schedule: " in only and "by the model" not in only


def test_a_line_for_each_candidate() -> None:
    right = Measurement(parse("Um8"), Outcome.ok, 2e-6, 2e-6, 9)
    assert candidate_line(right, 1e-6) == "      2 µs   2.00x  ok       Um8"
    assert candidate_line(Measurement((), Outcome.wrong, detail="c differs"), 1e-6) == "         -       -  wrong    (none)  (c differs)"


def test_what_others_use_is_seen_where_the_system_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.measure import timing as busy

    told = iter([100.0, 101.5])
    monkeypatch.setattr(busy, "_times", lambda: next(told))
    assert (busy.used_by_others(0.01) or 0) > 1
    monkeypatch.setattr(busy, "_times", lambda: None)
    assert busy.used_by_others(0.01) is None


def test_rows_of_another_version_are_listed(tune: Tune, cache_file: Path) -> None:
    from .conftest import row

    with open_cache(cache_file) as store:
        store.record([row(opts_display=[["NEWER", "m", 8]], opts=[["NEWER", "a0", 8]])])
    for command in (["cache", "list"], ["report"]):
        done = tune(*command)
        assert done.code == 0 and '[["NEWER","m",8]]' in done.out, done.err


OPTS = (Opt("LOCAL", "n", 8), Opt("SPLIT", "k", 2))


@pytest.fixture
def explained(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The command, with a cache that has the schedule and nothing measured."""
    monkeypatch.setattr(
        import_module("tilewright.plan.resolve"),
        "resolve",
        lambda *args, **more: SimpleNamespace(origin="exact", opts=OPTS, row=None),
    )
    monkeypatch.setattr(
        import_module("tilewright.search.option_worth"),
        "explain",
        lambda *args, **more: Explanation(OPTS, 1e-3, None, (), 1, True),
    )
    return lambda *args: tune("explain", "--kernel", "matmul", "--shape", "m=16,n=16,k=16", "--device", SPEC, *args)


@pytest.mark.slow
@needs_nvrtc
@needs_nvdisasm
def test_instructions_of_each_phase(explained: Any) -> None:
    done = explained()
    assert done.code == 0, done.err
    for line in (
        "matmul_p0: 8 threads of ",
        "matmul_p1: ",
        "  arithmetic: ",
        "  global memory: ",
        "groups a multiprocessor (",
    ):
        assert line in done.out
    data = json.loads(explained("--format", "json").out)
    assert [k["name"] for k in data["kernels"]] == ["matmul_p0", "matmul_p1"]
    assert data["kernels"][0]["instructions"]["FFMA"] > 0 and data["kernels"][0]["occupancy"]["groups"] > 0


@needs_nvrtc
def test_without_nvdisasm_it_says_what_to_install(explained: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(cubin: bytes) -> str:
        raise DeviceError(f"nvdisasm is not installed; {sass.INSTALL}")

    monkeypatch.setattr(sass, "disassemble", missing)
    done = explained()
    assert "phase 0 expects " in done.out and "  waiting: " in done.out and " keep its memory busy" in done.out
    assert done.code == 0 and "matmul_p0: 8 threads of " in done.out and "its operations at the measured peak take" in done.out
    assert "its operations at the peak of tensor cores take" in explained("--dtype", "bfloat16").out
    assert done.out.count("instructions are not counted: nvdisasm is not installed; pip install 'tilewright[sass]'") == 1
