"""A list of kernels in which something is read that was never written is an error, and no result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.ir import axis
from tilewright.ir.errors import InternalError
from tilewright.ir.operators import substitute
from tilewright.tensor import Tensor
from tilewright.tensor.fusion import call_list as calls
from tilewright.tensor.fusion import pull
from tilewright.tensor.fusion.call_list import CallList, KernelCall, call_list, prove
from tilewright.tensor.partition import kernel_regions as regions
from tilewright.tensor.partition import loop_axes as places
from tilewright.tensor.running import numpy_evaluation as small

pytestmark = pytest.mark.usefixtures("graphs")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> CallList:
    """The sums of columns, and two kernels that divide parts by them."""
    x = Tensor(np.ones((300, 70), np.float32))
    p = x / x.sum(0)
    found = call_list([(p[:, :20] * 2).node, (p[:, 20:] * 2).node])
    assert len(found.calls) == 3
    prove(found)
    return found


def changed(made: CallList, n: int, **fields: Any) -> CallList:
    calls = list(made.calls)
    calls[n] = replace(calls[n], **fields)
    return replace(made, calls=calls)


def test_kernels_run_after_what_they_read(made: CallList) -> None:
    with pytest.raises(InternalError, match=r"reads float32\[70\].* before any kernel has written it; no result is given"):
        prove(replace(made, calls=made.calls[::-1]))


def test_every_result_is_written(made: CallList) -> None:
    with pytest.raises(InternalError, match="no kernel writes the result"):
        prove(replace(made, calls=made.calls[:1]))


def test_nothing_is_written_twice(made: CallList) -> None:
    with pytest.raises(InternalError, match="which has its values already"):
        prove(replace(made, calls=[*made.calls, made.calls[1]]))


def test_kernels_write_whole_arrays(made: CallList) -> None:
    call = made.calls[0]
    assert isinstance(call, KernelCall)
    (store,) = call.kernel.stores
    short = axis("short", 69)
    part = replace(store, indices=(short,), axes=(short,), expr=substitute(store.expr, {store.axes[0]: short}))
    kernel = replace(call.kernel, stores=(part,))
    with pytest.raises(InternalError, match=r"does not write every element of float32\[70\]"):
        prove(changed(made, 0, kernel=kernel))


def test_parameters_are_the_arrays(made: CallList) -> None:
    with pytest.raises(InternalError, match="takes float32"):
        prove(changed(made, 1, inputs=made.calls[1].inputs[::-1]))


@pytest.mark.parametrize("captured", [False, True])
def test_a_fault_of_the_partition_is_an_error(captured: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics of which two kernels read parts, as they were stored before: for one of the kernels."""
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")

    def whole(at: Any, shape: Any) -> bool:
        return places.plain(at)

    for module in (places, regions, pull):
        monkeypatch.setattr(module, "whole", whole)

    def both(x: Tensor) -> Any:
        p = x / x.sum(0)
        return p[:, :21] * 2, p[:, 21:] * 2

    with pytest.raises(InternalError, match="does not write every element"):
        if captured:
            tw.jit(both)(Tensor(np.ones((41, 31), np.float32)))
        else:
            calls.call_list([t.node for t in both(Tensor(np.ones((41, 31), np.float32)))])


def test_parts_of_a_statistic_joined_again() -> None:
    x = np.random.default_rng(0).uniform(1, 2, (300, 70))
    t = Tensor(x)
    p = t / t.sum(0)
    made = tw.xp.concat([p[:, :20] * 2, p[:, 20:] * 3], axis=1)
    want = x / x.sum(0) * np.where(np.arange(70) < 20, 2, 3)
    assert np.allclose(small.evaluate([made.node])[0], want) and np.allclose(made.numpy(), want)
