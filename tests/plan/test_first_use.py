"""A schedule that nobody measured is checked before it answers: a wrong lowering is found, told, recorded, and another answers."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import named_kernels
from tilewright.cache import Cache
from tilewright.cache import open as opened
from tilewright.devices import get
from tilewright.ir import sym
from tilewright.ir.errors import VerifyError
from tilewright.lower import passes
from tilewright.lower.passes import Pass
from tilewright.measure.checking import first_use as looked
from tilewright.plan import Artefacts, best
from tilewright.plan import first_use_check as first_use
from tilewright.plan.first_use_check import FirstUseWarning
from tilewright.program.program import Program, statements


def planted(monkeypatch: pytest.MonkeyPatch, op: str, instead: str, least: int = 2) -> list[str]:
    """A pass that has another operation for the first one of a kind with so many lanes; the names of the programs that it changed."""
    real, changed = passes.of, []

    def run(program: Program, target: Any) -> None:
        for phase in program.phases:
            for s in statements(phase.body):
                if getattr(s, "op", "") == op and s.out is not None and s.out.dtype.is_float and s.out.lanes >= least:
                    s.op = instead
                    changed.append(program.name)
                    return

    monkeypatch.setattr(passes, "of", lambda target: (*real(target), Pass("planted", lambda target: True, run)))
    return changed


@pytest.fixture
def place(tmp_path: Path) -> Any:
    with opened(tmp_path / "c.db") as store:
        yield {"cache": store, "store": Artefacts(tmp_path / "artefacts"), "threads": 1}


SOFTMAX = ("softmax", {"m": 13, "n": 203}, "float32")


def test_a_wrong_start_schedule_is_told_recorded_and_never_answers_again(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = planted(monkeypatch, "add", "sub")
    x = np.random.default_rng(0).standard_normal((13, 203)).astype(np.float32) * 30
    with pytest.warns(FirstUseWarning, match=r"the start schedule .* of softmax computes wrong results here: y\[.*recorded as wrong"):
        compiled = best(*SOFTMAX, check=True, **place)
    assert changed and compiled.origin == "start" and compiled.checked
    y = compiled(x)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5, atol=1e-6)
    rows = place["cache"].rows(outcome="wrong")
    assert rows and all(r.strategy == first_use.STRATEGY and "expected" in r.facts["detail"] for r in rows)
    wrong = {r.opts_display for r in rows}
    from tilewright.opts import dumps

    assert dumps(compiled.plan.opts) not in wrong
    # whoever asks next is given none of these, checked or not
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = best(*SOFTMAX, **place)
    assert dumps(again.plan.opts) not in wrong


def test_where_nothing_is_right_that_is_an_error(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(monkeypatch, "add", "sub", least=1)
    planted(monkeypatch, "fma", "add", least=1)
    with pytest.raises(VerifyError, match="No schedule is left"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FirstUseWarning)
        best("sum_rows", {"m": 5, "n": 67}, "float32", check=True, **place)


def test_what_passed_is_not_looked_at_again(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    real = looked.wrong
    monkeypatch.setattr(looked, "wrong", lambda *a, **k: calls.append(1) or real(*a, **k))
    for _ in range(2):
        assert best("matmul", {"m": 33, "n": 17, "k": 9}, "float32", check=True, **place).checked
    assert len(calls) == 1
    best("matmul", {"m": 34, "n": 17, "k": 9}, "float32", check=True, **place)
    assert len(calls) == 2, "another shape is another use"
    best("matmul", {"m": 35, "n": 17, "k": 9}, "float32", **place)
    assert len(calls) == 2, "nobody asked"
    monkeypatch.setenv(first_use.VARIABLE, "1")
    best("matmul", {"m": 36, "n": 17, "k": 9}, "float32", **place)
    assert len(calls) == 3


def test_what_was_measured_is_not_looked_at(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"m": 24, "n": 24, "k": 24}
    tw.tune("matmul", shape, "float32", threads=1, cache=place["cache"], trials=3)
    monkeypatch.setattr(looked, "wrong", None)
    compiled = best("matmul", shape, "float32", check=True, **place)
    assert compiled.origin == "exact" and compiled.checked


def test_writing_outside_is_seen(place: Any) -> None:
    kernel = named_kernels.make("add", {"m": 4, "n": 25}, "float32")
    compiled = best(kernel, **place)

    class Beyond:
        """Runs the program, and writes one element too many."""

        def run(self, pointers: Any, vars: Any = ()) -> None:
            import ctypes

            compiled.executable.run(pointers, vars)
            ctypes.c_float.from_address(pointers[-1] + 400).value = 1.0

    say = looked.wrong(kernel, compiled.built.signature, Beyond(), get("cpu"), False)  # type: ignore[arg-type]
    assert say is not None and "writes outside" in say
    assert looked.wrong(kernel, compiled.built.signature, compiled.executable, get("cpu"), False) == ""


def test_large_kernels_are_looked_at_in_part_or_not_at_all(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = named_kernels.make("softmax", {"m": 3000, "n": 300}, "float32")
    compiled = best(kernel, **place)
    with monkeypatch.context() as m:
        m.setattr(looked, "WORK", 1 << 14)

        class LastRow:
            """The last element of the last row is wrong: where blocks are ragged."""

            def run(self, pointers: Any, vars: Any = ()) -> None:
                import ctypes

                compiled.executable.run(pointers, vars)
                ctypes.c_float.from_address(pointers[-1] + 4 * (3000 * 300 - 1)).value = 3.0

        assert looked.wrong(kernel, compiled.built.signature, compiled.executable, get("cpu"), False) == ""
        say = looked.wrong(kernel, compiled.built.signature, LastRow(), get("cpu"), False)  # type: ignore[arg-type]
        assert say is not None and "[2999, 299] is 3.0" in say
    monkeypatch.setattr(looked, "MOST_BYTES", 1000)
    assert looked.wrong(kernel, compiled.built.signature, compiled.executable, get("cpu"), False) is None


@pytest.mark.parametrize(
    ("name", "shape", "dtype"),
    [
        ("cumsum", {"m": 3, "n": 131}, "float32"),
        ("argmax", {"m": 7, "n": 45}, "float16"),
        ("embedding", {"n": 9, "v": 30, "d": 21}, "bfloat16"),
        ("matmul_int8", {"m": 5, "n": 7, "k": 19}, None),
        ("layernorm", {"m": 3, "n": 77}, "float64"),
        ("sum_rows", {"m": 5, "n": sym("n", 1, 300)}, "float32"),
        ("sum_all", {"n": 1}, "float32"),
    ],
)
def test_right_schedules_pass(place: Any, name: str, shape: Any, dtype: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", FirstUseWarning)
        assert best(name, shape, dtype, check=True, **place).checked


# functions of tensors -------------------------------------------------------------------------------------------------
def function(x: Any) -> Any:
    return (x * 2.0 + 1.0).max(-1) + x.sum(-1)


def test_a_captured_function_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    planted(monkeypatch, "max", "min")
    x = np.random.default_rng(1).standard_normal((19, 211)).astype(np.float32)
    want = (x * 2.0 + 1.0).max(-1) + x.sum(-1)
    unchecked = tw.jit(function, cache=tmp_path / "c.db", threads=1)(tw.Tensor(x)).numpy()
    assert not np.allclose(unchecked, want, rtol=1e-4, atol=1e-3), "the planted fault shows"
    with pytest.warns(FirstUseWarning, match="computes wrong results here"):
        got = tw.jit(function, cache=tmp_path / "c.db", threads=1, check=True)(tw.Tensor(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


def test_a_cache_that_cannot_be_written_does_not_hide_it(place: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.cache import CacheWarning
    from tilewright.ir.errors import CacheError

    def full(self: Any, *a: Any, **k: Any) -> Any:
        raise CacheError("the disk is full")

    planted(monkeypatch, "add", "sub")
    monkeypatch.setattr(Cache, "record", full)
    with pytest.warns(CacheWarning, match="could not be recorded: the disk is full"), pytest.warns(FirstUseWarning):
        assert best(*SOFTMAX, check=True, **place).checked
