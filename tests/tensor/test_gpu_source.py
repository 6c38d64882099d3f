"""Kernels that come out of expressions, as source for GPUs: a transformer block, forward and backward."""

import pytest
from cuda_build import needs_nvrtc
from plain_tensors import array, block, listed, parameters
from tilewright.devices.cuda import nvrtc
from tilewright.heuristics import quick_starts
from tilewright.ir.normal_form import normalise
from tilewright.lower import lower
from tilewright.opts import apply
from tilewright.renderers import render
from tilewright.targets.table import lookup
from tilewright.tensor import value_and_grad

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def calls():
    def loss(x, p):
        y = block(x, p, 2)
        return (y * y).mean()

    value, (dx, dp) = value_and_grad(loss, argnums=(0, 1))(array(1, 32, 32), parameters(32))
    return listed(value, dx, *dp.values()).calls


@pytest.mark.parametrize("name", [pytest.param("sm_90a", marks=needs_nvrtc), "opencl-gpu"])
def test_every_kernel_has_a_start_schedule_and_source(calls, name):
    target = lookup(name)
    assert len(calls) > 20
    done = set()
    for call in calls:
        kernel = normalise(call.kernel)
        source = render(lower(apply(kernel, next(iter(quick_starts(kernel, target, 1))), target)), target)
        kind = tuple(r.name for r in call.rules)
        if name.startswith("sm") and kind not in done:
            done.add(kind)
            assert nvrtc.compile(source.text, name)[0]
