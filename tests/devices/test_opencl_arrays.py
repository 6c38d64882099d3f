"""pyopencl's arrays, buffers and shared virtual memory as arguments, on a user's queue; NumPy's arrays where they lie."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from opencl_driver import POCL, needs_pocl
from tilewright import devices
from tilewright.devices.opencl import device_of, on
from tilewright.ir import UsageError

pytestmark = [needs_pocl, pytest.mark.slow]
SHAPE = {"m": 24, "n": 32, "k": 40}
A, B = np.random.default_rng(0).standard_normal((2, 40, 40)).astype(np.float32)
A, B = A[:24].copy(), B[:, :32].copy()
EXPECTED = A @ B


@pytest.fixture(scope="module", params=["in order", "out of order"])
def user(request: pytest.FixtureRequest) -> SimpleNamespace:
    """A context and queue of a user's, and a kernel for it."""
    cl = pytest.importorskip("pyopencl")
    platform = next(p for p in cl.get_platforms() if "Portable" in p.name)
    context = cl.Context(platform.get_devices()[-1:])
    flags = cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE if request.param == "out of order" else 0
    queue = cl.CommandQueue(context, properties=flags)
    # with `Rk2` partial sums are added in a second phase
    return SimpleNamespace(cl=cl, queue=queue, kernel=tw.best("matmul", SHAPE, "float32", device=on(queue), opts="Pm Rk2"))


def close(found: Any) -> bool:
    return bool(np.allclose(found, EXPECTED, rtol=1e-4, atol=1e-4))


def test_arrays(user: SimpleNamespace) -> None:
    array = pytest.importorskip("pyopencl.array")
    a, b = array.to_device(user.queue, A), array.to_device(user.queue, B)
    made = user.kernel(a, b)
    assert isinstance(made, array.Array) and made.queue == user.queue and made.events and close(made.get())
    assert close((made + 0).get())  # pyopencl's own operations wait for the event
    out = array.zeros(user.queue, (24, 32), np.float32)
    assert user.kernel(a, b, out=out) is out and close(out.get())
    both = array.zeros(user.queue, (2, 24 * 128), np.float32)  # a part of an array that begins at a multiple of 128 bytes
    part = both[1][: 24 * 40].reshape(24, 40)
    part[:] = a
    assert part.offset and close(user.kernel(part, b).get())


def test_buffers_and_shared_memory(user: SimpleNamespace) -> None:
    cl, flags = user.cl, user.cl.mem_flags
    a, b = (cl.Buffer(user.queue.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x) for x in (A, B))
    c = cl.Buffer(user.queue.context, flags.WRITE_ONLY, EXPECTED.nbytes)
    user.kernel(a, b, out=c)
    found = np.empty_like(EXPECTED)
    user.queue.finish()
    cl.enqueue_copy(user.queue, found, c)
    assert close(found)
    shared = [cl.SVM(cl.csvm_empty(user.queue.context, x.shape, np.float32, alignment=128)) for x in (A, B, EXPECTED)]
    for s, x in zip(shared, (A, B), strict=False):
        with s.map_rw(user.queue) as mapped:
            mapped[...] = x
    user.kernel(*shared[:2], out=shared[2])
    user.queue.finish()
    with shared[2].map_ro(user.queue) as mapped:
        assert close(mapped)


def test_memory_of_pools(user: SimpleNamespace) -> None:
    array, tools = pytest.importorskip("pyopencl.array"), pytest.importorskip("pyopencl.tools")
    for pool in (tools.MemoryPool(tools.ImmediateAllocator(user.queue)), tools.SVMPool(tools.SVMAllocator(user.queue.context))):
        a, b, out = (array.to_device(user.queue, x, allocator=pool) for x in (A, B, EXPECTED * 0))
        assert close(user.kernel(a, b, out=out).get())
    with pytest.raises(UsageError, match="tensors do not lie in shared virtual memory"):
        tw.jit(lambda x: x.relu())(a)
    with pytest.raises(UsageError, match="lies on a device"):
        tw.Tensor(array.to_device(user.queue, A))


@pytest.mark.parametrize("user", ["in order"], indirect=True)
def test_functions_of_tensors_take_arrays_where_they_lie(user: SimpleNamespace) -> None:
    """Results are tensors, whose memory is an array of pyopencl's in the same context; kernels take it again."""
    array = pytest.importorskip("pyopencl.array")
    a, b = array.to_device(user.queue, A), array.to_device(user.queue, B)
    a += 1  # an event that is waited for
    function = tw.jit(lambda x, y: x @ y)
    for _ in range(3):  # (the quick way of later calls)
        made = function(a, b)
        assert close(made.numpy() - B.sum(0)) and made.device == device_of(a) != "cpu"
    own = made.pyopencl()
    assert isinstance(own, array.Array) and own.context == user.queue.context and (own.get() == made.numpy()).all()
    assert (function(own, own.reshape(32, 24)).numpy() == function(made, made.reshape(32, 24)).numpy()).all()
    assert close(user.kernel(tw.Tensor(A, device=made.device), b).get())
    del made
    for _ in range(2):
        function(a, array.zeros_like(b))  # memory of results that died is used again, but not this
    assert close(own.get() - B.sum(0))
    for arguments, said in (((A, b), "arguments lie on different devices"), ((a.T, b), "not contiguous in row-major order")):
        with pytest.raises(UsageError, match=said):
            function(*arguments)
    with pytest.raises(UsageError, match=r"a tensor on cpu is no array of pyopencl's: x.to\('opencl'\) is one"):
        tw.Tensor(A).pyopencl()


def test_memory_of_huge_pages_lives_as_long_as_an_array_on_it() -> None:
    whole = np.arange(1 << 20, dtype=np.float32)
    part = tw.Tensor(whole, device=POCL).pyopencl()[1000:1010]
    others = [tw.Tensor(0 * whole, device=POCL) for _ in range(2)]
    assert (part.get() == whole[1000:1010]).all() and not others[1].numpy().any()


def test_what_is_wrong_is_said(user: SimpleNamespace) -> None:
    array = pytest.importorskip("pyopencl.array")
    a, b = array.to_device(user.queue, A), array.to_device(user.queue, B)
    other = user.cl.CommandQueue(user.cl.Context([user.queue.device]))
    square = array.zeros(user.queue, (40, 40), np.float32)
    for arguments, said in (
        ((a, B), "some arguments are pyopencl's and some are not: copy"),
        ((a, b.astype(np.float64)), "b is float64, it must be float32"),
        ((a, square), r"b has shape \(40, 40\), it must be \(40, 32\)"),
        ((a, square[:, :32]), "not contiguous in row-major order: pass a copy"),
        ((a, array.to_device(other, B)), r"another OpenCL context: .*=tilewright.devices.opencl.on\(queue\)"),
        ((a.base_data, a.base_data), "b has 3840 bytes, it must have 5120"),
        ((a,), "takes 2 input arrays, not 1"),
    ):
        with pytest.raises(UsageError, match=said):
            user.kernel(*arguments)
    with pytest.raises(UsageError, match="an output overlaps another argument"):
        user.kernel(a, b, out=a.reshape(-1)[: 24 * 32].reshape(24, 32))


def test_arrays_of_numpy_lie_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver for processors copies those only that do not begin at a multiple of 64 bytes."""
    kernel = tw.best("matmul", {"m": 96, "n": 96, "k": 96}, "float32", device="opencl:portable")
    lines = [tw.empty((96, 96)) for _ in range(3)]
    odd = [tw.empty(96 * 96 + 1)[1:].reshape(96, 96) for _ in range(3)]
    copied: list[int] = []
    memory = type(devices.get("opencl:portable").memory())
    for name in ("read", "write"):
        before = getattr(memory, name)
        monkeypatch.setattr(memory, name, lambda self, *a, before=before: (copied.append(a[2]), before(self, *a)))
    for arrays, copies in ((lines, 0), (odd, 3), ((odd[0], *lines[1:]), 1)):
        copied.clear()
        for scale in (1.0, 2.0):
            arrays[0][...], arrays[1][...], arrays[2][...] = scale, 1.0, 0.0
            assert (kernel(*arrays[:2], out=arrays[2]) == 96 * scale).all()
        assert len(copied) == 2 * copies
    assert not devices.get("opencl:portable").memory().shared(odd[0].ctypes.data, 64)  # type: ignore[union-attr]
