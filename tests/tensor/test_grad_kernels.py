"""What backward passes become: the named kernels where there are any, and few of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from tilewright import Tensor, nn, vjp
from tilewright.ir.dtypes import float32
from tilewright.ir.normal_form import canonical
from tilewright.tensor.fusion.call_list import KernelCall, call_list

pytestmark = pytest.mark.many
rng = np.random.default_rng(0)


def array(*shape: int) -> Tensor:
    return Tensor(rng.standard_normal(shape).astype("f"))


def named(kernel: str, **shape: int) -> str:
    return canonical(import_module(f"tilewright.kernels.{kernel}").make(shape, float32)).text


def kernels(*ts: Any) -> list[str]:
    return [canonical(c.kernel).text for c in call_list([t.node for t in ts]).calls if isinstance(c, KernelCall)]


@pytest.mark.parametrize("lead", [(24,), (4, 6)])
def test_products_of_transposes(lead: tuple[int, ...]) -> None:
    """x · w has the gradients dy · wᵀ and xᵀ · dy, also of batches."""
    dx, dw = vjp(lambda x, w: x @ w, array(*lead, 40), array(40, 56))[1](array(*lead, 56))
    assert kernels(dx) == [named("matmul_nt", m=24, n=40, k=56)]
    assert kernels(dw) == [named("matmul_tn", m=40, n=56, k=24)]


def test_embeddings_scatter() -> None:
    ids = Tensor(rng.integers(0, 23, 31), range=(0, 22))
    (dt,) = vjp(lambda t: nn.embedding(t, ids), array(23, 19))[1](array(31, 19))
    assert kernels(dt) == [named("embedding_grad", v=23, n=31, d=19)]


def test_rows_and_windows_are_few_kernels() -> None:
    """softmax in one; layer_norm in its rows and the sums over rows; a convolution's gradients are two contractions."""
    assert len(kernels(*vjp(lambda x: x.softmax(-1), array(8, 33))[1](array(8, 33)))) == 1
    assert len(kernels(*vjp(nn.layer_norm, array(8, 6, 33), array(33), array(33))[1](array(8, 6, 33)))) <= 3
    found = vjp(lambda x, w: nn.conv(x, w, padding=1), array(2, 3, 10, 10), array(5, 3, 3, 3))[1](array(2, 5, 10, 10))
    calls = call_list([t.node for t in found]).calls
    assert len(calls) == 2 and [n.op for c in calls for n in c.nodes] == ["reduce", "reduce"]
