"""Arrays of other libraries in a GPU's memory as arguments, over the stub driver: no copy, their stream, and errors that name what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_cuda import has, needs_stub, run
from tilewright.devices.cuda.driver import CHOICE

pytestmark = [needs_stub, pytest.mark.slow]
START = """
import ctypes, sys, types
import numpy as np
import tilewright as tw
from stub_cuda import StubCudaDevice
from tilewright.ir import UsageError
device = StubCudaDevice()
device.spec = "stub-cuda"
session = device.open()
class Array:
    '''As a library would make it: the stub's device memory is memory of the host, in which tests look.'''
    def __init__(self, shape, dtype="float32", data=None, gpu=0, read_only=False, **told):
        self.shape, self.dtype, self.gpu, self.read_only = tuple(shape), np.dtype(dtype), gpu, read_only
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.address = session.alloc(max(1, self.nbytes) + 256)
        self.told = told
        if data is not None:
            self.host()[...] = data
    def host(self):
        if not self.nbytes:
            return np.empty(self.shape, self.dtype)
        return np.frombuffer((ctypes.c_char * self.nbytes).from_address(self.address), self.dtype).reshape(self.shape)
    def __dlpack_device__(self):
        return (2, self.gpu)
    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address, self.read_only), "version": 3, **self.told}
class Capsules:
    '''Only DLPack, as types that the interface lacks a word for.'''
    def __init__(self, inner, code=None):
        self.inner, self.code, self.shape = inner, code, inner.shape
    def __dlpack_device__(self):
        return (2, 0)
    def __dlpack__(self, stream=None):
        assert stream == -1
        from tilewright.tensor.frontends import exchange
        capsule = self.inner.host().view(np.uint16 if self.code else self.inner.dtype).__dlpack__()
        code = exchange._code(capsule)
        at = ctypes.addressof(code)
        ctypes.c_int.from_address(at - 12).value = 2  # the kind of device, three numbers before
        if self.code:
            code.value = self.code
        return capsule
def refused(text, *arguments, by=None, **named):
    try:
        (by or kernel)(*arguments, **named)
    except UsageError as e:
        assert text in str(e), e
    else:
        raise AssertionError(f"nothing was said of {text}")
rng = np.random.default_rng(0)
A, B = rng.standard_normal((24, 40)).astype("f4"), rng.standard_normal((40, 32)).astype("f4")
kernel = tw.best("matmul", {"m": 24, "n": 32, "k": 40}, "float32", device=device, opts="(none)")
a, b, c = Array(A.shape, data=A), Array(B.shape, data=B), Array((24, 32))
def right(x):
    session.wait()
    return np.allclose(x.host(), A @ B, rtol=1e-4, atol=1e-4)
"""


def passes(script: str, **settings: str) -> None:
    done = run(START + script, **settings)
    assert done.returncode == 0, done.stderr


def test_arrays_are_used_where_they_lie(tmp_path: Path) -> None:
    passes(
        """
assert kernel(a, b, out=c) is c and right(c)
assert kernel(Capsules(a), Capsules(b), out=c) is c and right(c)
kernel(A, B)  # NumPy's as before
strided = Array(A.shape, data=A, strides=(160, 4))  # row-major, said with strides
kernel(strided, b, out=c)
single = tw.best("matmul", {"m": 1, "n": 32, "k": 40}, "float32", device=device, opts="(none)")
first = Array((1, 32))
single(Array((1, 40), data=A[:1], strides=(4096, 4)), b, out=first)  # the stride of one element means nothing
session.wait()
assert np.allclose(first.host(), A[:1] @ B, rtol=1e-4, atol=1e-4)
half = tw.best("matmul", {"m": 24, "n": 32, "k": 40}, "bfloat16", device=device, opts="(none)")
import ml_dtypes
ah, bh, ch = (Array(x.shape, ml_dtypes.bfloat16, data=x) for x in (A, B, A @ B * 0))
half(ah, bh, out=ch)
session.wait()
want = ch.host().astype("f4").copy()
assert np.allclose(want, A @ B, rtol=0.05, atol=0.1)
ch.host()[...] = 0
half(Capsules(ah, 4), Capsules(bh, 4), out=ch)
session.wait()
assert (ch.host().astype("f4") == want).all()
""",
        **{CHOICE: "ctypes"},
    )


@pytest.mark.parametrize(
    "adapter",
    [pytest.param("cuda-bindings", marks=pytest.mark.skipif(not has("cuda.bindings"), reason="cuda-bindings is not installed")), "ctypes"],
)
def test_a_call_is_queued_on_the_librarys_stream_and_waits_for_nothing(adapter: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    passes(
        """
cupy = sys.modules["cupy"] = types.ModuleType("cupy")
current = types.SimpleNamespace(ptr=0x70)
cupy.cuda = types.SimpleNamespace(get_current_stream=lambda: current)
class Cupy(Array):
    __module__ = "cupy._core.core"
    @property
    def device(self):
        import contextlib
        return contextlib.nullcontext()
cupy.empty = Cupy
a, b = Cupy(A.shape, data=A), Cupy(B.shape, data=B)
split = tw.best("matmul", {"m": 24, "n": 32, "k": 40}, "float32", device=device, opts="Kk2")  # partial sums lie in scratch memory
for k in (kernel, split):
    made = k(a, b)
    assert type(made) is Cupy and right(made)
with open(LOG, "a") as f:
    f.write("warm\\n")
c = Cupy((24, 32))
kernel(a, b, out=c)
split(a, b, out=c)
with open(LOG, "a") as f:
    f.write("done\\n")
assert right(c)
from tilewright.devices.cuda import on
from tilewright.devices.cuda.user_arrays import stream_of
assert stream_of(current) == 0x70 and stream_of(7) == 7 and on(current)._stream == 0x70
class Protocol:
    def __cuda_stream__(self):
        return (0, 0x90)
assert stream_of(Protocol()) == 0x90
refused("a str is no CUDA stream", "x", by=stream_of)
plain = Array(B.shape, data=B)  # its library works on the default stream
refused("work on different streams", a, plain, out=c)
device._stream = 0x80
own = tw.best("matmul", {"m": 24, "n": 32, "k": 40}, "float32", device=device, opts="(none)")
own(a, plain, out=c)
assert right(c)
""".replace("LOG", repr(str(log))),
        STUB_LOG=str(log),
        **{CHOICE: adapter},
    )
    warm, _, after = log.read_text().partition("warm\n")[2].partition("done\n")
    calls = [line for line in warm.splitlines() if "cuCtx" not in line or "Synchronize" in line]
    launches = [line for line in calls if "cuLaunchKernel" in line or "on stream" in line]
    assert warm.count("on stream 0x70") == warm.count("cuLaunchKernel") == 3
    assert [x for x in calls if x not in launches and "cuMemAlloc" not in x] == []  # the test's own output is all that was made
    assert "on stream 0x80" in after


def test_another_librarys_gpu_stays_the_threads(tmp_path: Path) -> None:
    passes(
        """
from tilewright.devices.cuda.libcuda import LibCuda
api = LibCuda()
other = api.cuDevicePrimaryCtxRetain(1)[1]
api.cuCtxSetCurrent(other)
kernel(a, b, out=c)
assert api.cuCtxGetCurrent()[1] == other
kernel(A, B)  # our own memory is of our GPU, whichever was the thread's
assert right(c)
""",
        STUB_COUNT="2",
        **{CHOICE: "ctypes"},
    )


def test_what_is_wrong_is_said() -> None:
    passes(
        """
refused("some arguments lie in a GPU's memory and a ndarray does not", a, B, out=c)
refused("b is float64, it must be float32", a, Array(B.shape, "f8"), out=c)
refused("b has shape (40, 40), it must be (40, 32)", a, Array((40, 40)), out=c)
refused("not contiguous in row-major order (strides of (4, 160) bytes)", a, Array(B.shape, strides=(4, 160)), out=c)
refused("lies on cuda:1 and the kernel runs on cuda:0", a, Array(B.shape, gpu=1), out=c)
refused("read-only Array", a, b, out=Array((24, 32), read_only=True))
inside, odd = Array((24, 32)), Array(B.shape)
inside.address, odd.address = a.address, odd.address + 4
refused("an output overlaps another argument", a, b, out=inside)
refused("must be a multiple of", a, odd, out=c)
refused("pass out=, an array that it may write into", a, b)
refused("has a mask", a, Array(B.shape, mask=1), out=c)
class Learns(Array):
    @property
    def __cuda_array_interface__(self):
        raise RuntimeError("use var.detach()")
refused("use var.detach()", a, Learns(B.shape), out=c)
class Held(Capsules):
    def __dlpack__(self, stream=None):
        raise BufferError("Can't export tensors that require gradient")
refused("require gradient", a, Held(b), out=c)
refused("takes 2 input arrays, not 1", a, out=c)
""",
        **{CHOICE: "ctypes"},
    )


def test_tensors_lie_on_them_and_give_theirs_away(tmp_path: Path) -> None:
    passes(
        """
import gc, weakref
from stub_cuda import SPEC
from tilewright import xp
from tilewright.devices import get
from tilewright.tensor.running.pools import rooms_of
session = get(SPEC).open()
a, b = Array(A.shape, data=A), Array(B.shape, data=B)
x, y = (xp.from_dlpack(t, device=SPEC) for t in (a, b))
assert x.device == SPEC and np.allclose((x @ y).numpy(), A @ B, rtol=1e-4, atol=1e-4)
assert x.node.data.address == a.address
gone = weakref.ref(a)
told = x.__cuda_array_interface__
assert told == {"shape": (24, 40), "typestr": "<f4", "strides": None, "data": (a.address, False), "version": 3, "stream": 1}
address = a.address
del a
gc.collect()
assert gone() is not None  # the tensor keeps it
del x
gc.collect()
assert gone() is None and rooms_of(SPEC).take(A.nbytes) != address  # its library's memory is not ours to use again
a = Array(A.shape, data=A)
@tw.jit(device=SPEC)
def step(p, q):
    return (p @ q).relu()
for _ in range(3):
    out = step(a, b)
    assert np.allclose(out.numpy(), np.maximum(A @ B, 0), rtol=1e-4, atol=1e-4)
class View(Array):  # as another library takes a tensor
    def __init__(self, t):
        told = t.__cuda_array_interface__
        self.shape, self.dtype, self.address = told["shape"], np.dtype(told["typestr"]), told["data"][0]
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize
assert np.allclose(View(out).host(), np.maximum(A @ B, 0), rtol=1e-4, atol=1e-4)
assert not hasattr(xp.ones(3) + 1, "__cuda_array_interface__")
mine = tw.best("matmul", {"m": 24, "n": 32, "k": 40}, "float32", device=get(SPEC), opts="(none)")
c = Array((24, 32))
mine(xp.from_dlpack(a, device=SPEC), b, out=c)  # our own tensors as a kernel's arguments
session.wait()
assert np.allclose(c.host(), A @ B, rtol=1e-4, atol=1e-4)
refused("lies on cuda, and cpu has no part in that: leave the device out", a, b, by=tw.jit(lambda p, q: p + q, device="cpu"))
refused("lies on cuda:1 and the kernel runs on cuda:0", Array(A.shape, gpu=1), device=SPEC, by=xp.from_dlpack)
half = xp.from_dlpack(a, device=SPEC)
half += 1  # memory of another library is never written in place
assert np.allclose(half.numpy(), A + 1) and (a.host() == A).all()
empty = xp.from_dlpack(Array((0, 4)), device=SPEC)
assert empty.shape == (0, 4) and (empty + 1).numpy().shape == (0, 4)
""",
        **{CHOICE: "ctypes"},
    )
