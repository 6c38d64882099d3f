"""Names, sizes and element types: what is found and what is refused."""

import subprocess
import sys

import pytest
from kernel_oracles import ORACLES
from tilewright import named_kernels
from tilewright.ir import Kernel, KernelError, float32, sym
from tilewright.named_kernels import KernelDef


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_definitions_are_complete(name):
    d = named_kernels.get(name)
    assert isinstance(d, KernelDef) and d.name == name and d.doc
    assert d.shape_names == tuple(d.default_shape) == tuple(d.odd_shape)
    assert len(set(d.dtypes)) == len(d.dtypes)
    assert isinstance(named_kernels.make(name), Kernel)
    flops, read_and_written = ORACLES[name].cost(d.default_shape, d.dtype(None))
    assert read_and_written > 0 and flops >= 0
    # odd shapes are for tests that run everything many times
    assert ORACLES[name].cost(d.odd_shape, d.dtype(None))[0] < 100_000


@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_axes_are_named_for_options(name):
    """Options name axes, loops (`k.t`) and tensors: the names must not meet, and must not hold a dot."""
    kernel = named_kernels.make(name)
    tensors = {b.name for b in kernel.buffers} | set(kernel.values)
    axes = {a.arg.name for a in kernel.axes} | set(kernel.families)
    assert not tensors & axes
    assert not any("." in n for n in tensors | axes)


def test_unknown_kernel():
    with pytest.raises(KernelError, match=r"unknown kernel 'matmull'; did you mean 'matmul'\? \(known: matmul, "):
        named_kernels.get("matmull")
    with pytest.raises(KernelError, match=r"unknown kernel 'xyzzy' \(known: .*your own: my.py:function\)"):
        named_kernels.make("xyzzy")


def test_shapes_are_completed_and_checked():
    d = named_kernels.get("matmul")
    assert d.complete({"m": 7}) == {"m": 7, "n": 1024, "k": 1024}
    with pytest.raises(KernelError, match=r"matmul has no size 'mm'; did you mean 'm'\?; its sizes are m, n, k"):
        named_kernels.make("matmul", {"mm": 3})
    with pytest.raises(KernelError, match="size m is 0; it must be at least 1"):
        named_kernels.make("matmul", {"m": 0})
    with pytest.raises(KernelError, match=r"size m is 2\.5; give an int"):
        named_kernels.make("matmul", {"m": 2.5})
    with pytest.raises(KernelError, match=r"size m is True; give an int"):
        named_kernels.make("matmul", {"m": True})
    assert named_kernels.get("conv2d").complete({"pad": 0})["pad"] == 0
    with pytest.raises(KernelError, match="size pad is -1; it must be at least 0"):
        named_kernels.make("conv2d", {"pad": -1})


def test_element_types_are_checked():
    assert named_kernels.get("matmul").dtype(None) is float32
    assert named_kernels.get("matmul").dtype("bf16").name == "bfloat16"
    with pytest.raises(KernelError, match="softmax is not defined for int8; use one of float32, float16, bfloat16, float64"):
        named_kernels.make("softmax", dtype="int8")
    with pytest.raises(KernelError, match="unknown dtype 'float8'"):
        named_kernels.make("softmax", dtype="float8")


def test_symbols_are_sizes_too():
    kernel = named_kernels.make("softmax", {"m": sym("rows", 1, 64)})
    assert [s.arg.name for s in kernel.symbols] == ["rows"]


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("m=1000,n=777", {"m": 1000, "n": 777}),
        (" m = 3 , n=4,", {"m": 3, "n": 4}),
        ("n=67_108_864", {"n": 1 << 26}),
        ("", {}),
        ("pad=0", {"pad": 0}),
    ],
)
def test_parse_shape(text, shape):
    assert named_kernels.parse_shape(text) == shape


@pytest.mark.parametrize("text", ["m", "m=", "=3", "m=-1", "m=1.5", "m=0x10", "m:3", "m=n", "1m=2", "m=²", "m=_"])
def test_parse_shape_refuses(text):
    with pytest.raises(KernelError, match=r"cannot read '.*' as a size; write --shape m=1000,n=777"):
        named_kernels.parse_shape(text)


def test_parse_shape_refuses_a_size_given_twice():
    with pytest.raises(KernelError, match="size m is given twice"):
        named_kernels.parse_shape("m=1,n=2,m=3")


def test_light():
    """Listing and making every kernel imports no NumPy."""
    program = (
        "import sys\nfrom tilewright import named_kernels\nassert 'numpy' not in sys.modules\n"
        "for n in named_kernels.NAMES: named_kernels.make(n)\nassert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
