"""A user's own kernel from a file."""

import pytest
from tilewright import kernels
from tilewright.ir import KernelError, sym

GOOD = """
from tilewright.ir import KernelBuilder, float32

def helper(n):
    return n

def make_kernel(m=8, n=16, dtype=float32):
    kb = KernelBuilder("mine")
    i, j = kb.axis("m", m), kb.axis("n", helper(n))
    x = kb.input("x", (m, n), dtype)
    kb.store("y", dtype, (m, n), (i, j), x[i, j] * 2.0)
    return kb.build()

def fixed():
    return make_kernel()

def needs(m):
    return make_kernel(m)

def anything(**sizes):
    return make_kernel(**sizes)

def fails():
    return 1 / 0

def number():
    return 3

def malformed():
    KernelBuilder("empty").build()

not_a_function = 3
"""


@pytest.fixture
def my(tmp_path):
    path = tmp_path / "my.py"
    path.write_text(GOOD)
    return str(path)


def test_defaults_sizes_and_type(my):
    assert kernels.make(f"{my}:make_kernel").buffers[0].shape == (8, 16)
    kernel = kernels.make(f"{my}:make_kernel", {"m": 3}, "float64")
    assert kernel.buffers[0].shape == (3, 16) and kernel.buffers[0].dtype.name == "float64"
    assert kernels.make(my).name == "mine"
    assert kernels.make(f"{my}:fixed").name == "mine"
    assert kernels.make(f"{my}:anything", {"n": 5}, "float16").buffers[0].shape == (8, 5)
    assert kernels.make(f"{my}:needs", {"m": sym("m", 1, 4)}).symbols


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "message"),
    [
        ("make_kernle", None, None, "defines no function 'make_kernle'; did you mean 'make_kernel'?"),
        ("not_a_function", None, None, "defines no function 'not_a_function'"),
        ("make_kernel", {"mm": 3}, None, "has no size 'mm'; did you mean 'm'?; its arguments are m, n"),
        ("fixed", {"m": 3}, None, "its arguments are none"),
        ("fixed", None, "float32", "takes no dtype; add an argument `dtype` or leave --dtype out"),
        ("needs", None, None, "needs m: give --shape m=... or a default value"),
        ("fails", None, None, "my.py:24: ZeroDivisionError: division by zero"),
        ("number", None, None, "returned int; it must return a tilewright Kernel"),
        ("malformed", None, None, "kernel empty stores nothing"),
        ("make_kernel", None, "float31", "unknown dtype 'float31'"),
    ],
)
def test_mistakes_are_explained(my, name, shape, dtype, message):
    with pytest.raises(KernelError) as e:
        kernels.make(f"{my}:{name}", shape, dtype)
    assert message in str(e.value)


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(KernelError, match=r"there is no file .*nothing.py; write --kernel PATH.py:function"):
        kernels.make(f"{tmp_path}/nothing.py:make_kernel")
    bad = tmp_path / "bad.py"
    bad.write_text("def make_kernel(:\n")
    with pytest.raises(KernelError, match=r"bad.py cannot be run: .*SyntaxError"):
        kernels.make(f"{bad}:make_kernel")
    bad.write_text("import no_such_module\n")
    with pytest.raises(KernelError, match=r"bad.py cannot be run: .*bad.py:1: ModuleNotFoundError"):
        kernels.make(f"{bad}:make_kernel")


def test_what_is_a_path():
    assert kernels.is_path("my.py:f") and kernels.is_path("my.py") and not kernels.is_path("matmul")
