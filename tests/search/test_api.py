"""The interface of `tune`: what a caller allows, and how seldom garbage is collected meanwhile."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from tilewright import named_kernels, targets, tune
from tilewright.cache.keys import allowed, policy
from tilewright.ir import UsageError
from tilewright.ir.evaluation import evaluate_error
from tilewright.ir.lower_precision import cut_sums, lower_precision, rounds
from tilewright.measure.checking.verify import expectations, reference_kernel
from tilewright.measure.inputs import generate
from tilewright.search.api import OBJECTS, seldom_collected
from tilewright.search.kernel_task import KernelTask
from tilewright.search.task import TuneRequest
from tilewright.targets import tensor_rows


def test_what_is_allowed_is_text_of_the_key() -> None:
    assert policy(allowed()) == "REASSOC"
    assert policy(allowed(["downconvert"])) == policy(allowed("DownConvert")) == "DOWNCONVERT+REASSOC"
    with pytest.raises(UsageError, match="no effect is called 'speed'; what can be allowed: downconvert, nondet"):
        allowed(["speed"])
    a, b = (KernelTask("matmul", {"m": 8, "n": 8, "k": 8}, None, "cpu", 1, allow=x) for x in ((), ["downconvert"]))
    assert a.key != b.key and a.reference is None and b.reference is not None


def test_the_command_is_repeated_with_what_was_allowed() -> None:
    task = KernelTask("matmul", {"m": 8, "n": 8, "k": 8}, None, "cpu", 1, allow=["downconvert"])
    assert "--allow downconvert" in task.job("beam", TuneRequest()).reproduce()


def test_a_search_that_may_round_has_an_answer_of_its_own(tmp_path: object) -> None:
    found = [tune("matmul", {"m": 8, "n": 8, "k": 8}, trials=1, cache=f"{tmp_path}/c.db", allow=x) for x in ((), ["downconvert"])]
    assert [r.origin for r in found] == ["tuned", "tuned"]
    assert tune("matmul", {"m": 8, "n": 8, "k": 8}, trials=1, cache=f"{tmp_path}/c.db", allow=["downconvert"]).origin != "tuned"


def bound(name: str, dtype: str, **shape: int) -> tuple[float, float]:
    """(the largest error that passes, of a kernel and where factors may be rounded), of its first output."""
    kernel = named_kernels.make(name, shape, dtype)
    inputs = generate(kernel, {}, 1)
    out = kernel.outputs[0].name
    exact, lower = (expectations(k, inputs, {})[out] for k in (kernel, lower_precision(kernel)))
    assert np.array_equal(exact.value, lower.value)
    assert exact.weight is not None and lower.weight is not None
    return float((1 / exact.weight).max()), float((1 / lower.weight).max())


def test_rounded_factors_widen_the_bound_by_what_they_lose() -> None:
    exact, lower = bound("matmul", "float32", m=8, n=8, k=64)
    assert 20 * exact < lower < 2000 * exact  # tf32 has 11 digits, float32 24; sums of roundings grow with √k there, with k here
    exact, lower = bound("attention_full", "bfloat16", b=1, h=1, s=32, d=16)
    assert 2 * exact < lower
    exact, lower = bound("matmul", "bfloat16", m=8, n=8, k=64)
    assert exact == lower


def test_tf32_is_within_the_bound_and_a_lost_product_is_not() -> None:
    kernel = named_kernels.make("matmul", {"m": 16, "n": 16, "k": 64}, "float32")
    inputs = generate(kernel, {}, 3)
    value, scale = evaluate_error(lower_precision(kernel), inputs)[kernel.outputs[0].name]
    a, b = (np.asarray(inputs[n], np.float32) for n in "ab")

    def cut(x: np.ndarray) -> np.ndarray:
        return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)

    most = 4 * 2.0**-23 * scale
    assert (np.abs(cut(a) @ cut(b) - value) <= most).all()
    assert (np.abs(a[:, 1:].astype(np.float64) @ b[1:] - value) > most).mean() > 0.5


def test_only_sums_of_products_of_float32_are_rounded() -> None:
    for name, dtype, want in (
        ("matmul", "float64", False),
        ("matmul", "float32", True),
        ("sum_rows", "float32", False),
        ("attention", "float16", True),
    ):
        kernel = named_kernels.make(name, named_kernels.get(name).odd_shape, dtype)
        assert any(rounds(v) for v in kernel.values.values()) is want
        assert (lower_precision(kernel) is kernel) is not want


def test_long_sums_of_one_sign_may_be_cut_where_tensor_cores_make_them() -> None:
    kernel = named_kernels.make("matmul", {"m": 16, "n": 8, "k": 4096}, "float16")
    inputs = {n: np.abs(x) for n, x in generate(kernel, {}, 3).items()}
    cut = reference_kernel(kernel, targets.named("sm_80"), lower=False)
    assert cut is not kernel and reference_kernel(kernel, targets.named("avx2"), lower=False) is kernel
    a, b = (np.asarray(inputs[n], np.float64) for n in "ab")
    row = tensor_rows.BY_NAME["mma.m16n8k16.f16"]
    acc = np.zeros((16, 8), np.float32)
    for k in range(0, 4096, 16):
        acc = row.step(acc, a[:, k : k + 16], b[k : k + 16], "ampere")
    value, scale = evaluate_error(cut, inputs)["c"]
    assert (np.abs(acc - value) <= 4 * 2.0**-23 * scale).all()
    assert (np.abs(a[:, 16:] @ b[16:] - value) > 4 * 2.0**-23 * scale).all()
    assert cut_sums(named_kernels.make("matmul", {"m": 16, "n": 8, "k": 512}, "float16")).name == "matmul"


@pytest.mark.parametrize(("before", "inside"), [((700, 10, 10), OBJECTS), ((0, 10, 10), 0), ((2 * OBJECTS, 10, 10), 2 * OBJECTS)])
def test_thresholds_come_back_and_a_wish_stands(before: tuple[int, int, int], inside: int) -> None:
    found = gc.get_threshold()
    gc.set_threshold(*before)
    try:
        with pytest.raises(ValueError, match="stop"), seldom_collected():
            assert gc.get_threshold()[0] == inside
            raise ValueError("stop")
        assert gc.get_threshold() == before
    finally:
        gc.set_threshold(*found)


def test_a_policy_that_cannot_be_honoured_is_refused_before_anything_takes_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.search.api.know_limits", lambda *_: pytest.fail("the machine's limits were asked for"))
    for threads, instead in ((1, "leave out ,busy"), (2, "give fewer threads")):
        monkeypatch.setattr("tilewright.measure.measurement_policy.usable_cores", lambda n=threads: n)
        with pytest.raises(UsageError, match=f"needs a core beside the {threads} that the kernel runs on: {instead}"):
            tune("softmax", {"m": 8, "n": 8}, threads=threads, policy="cache,busy", cache=tmp_path / "c.db", budget=5)
