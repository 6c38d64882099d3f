"""A user's own kernel from a file."""

import pytest
from tilewright import named_kernels
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
    assert named_kernels.make(f"{my}:make_kernel").buffers[0].shape == (8, 16)
    kernel = named_kernels.make(f"{my}:make_kernel", {"m": 3}, "float64")
    assert kernel.buffers[0].shape == (3, 16) and kernel.buffers[0].dtype.name == "float64"
    assert named_kernels.make(my).name == "mine"
    assert named_kernels.make(f"{my}:fixed").name == "mine"
    assert named_kernels.make(f"{my}:anything", {"n": 5}, "float16").buffers[0].shape == (8, 5)
    assert named_kernels.make(f"{my}:needs", {"m": sym("m", 1, 4)}).symbols


@pytest.mark.many
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
        named_kernels.make(f"{my}:{name}", shape, dtype)
    assert message in str(e.value)


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(KernelError, match=r"there is no file .*nothing.py; write --kernel PATH.py:function"):
        named_kernels.make(f"{tmp_path}/nothing.py:make_kernel")
    bad = tmp_path / "bad.py"
    bad.write_text("def make_kernel(:\n")
    with pytest.raises(KernelError, match=r"bad.py cannot be run: .*SyntaxError"):
        named_kernels.make(f"{bad}:make_kernel")
    bad.write_text("import no_such_module\n")
    with pytest.raises(KernelError, match=r"bad.py cannot be run: .*bad.py:1: ModuleNotFoundError"):
        named_kernels.make(f"{bad}:make_kernel")


def test_what_is_a_path():
    assert named_kernels.is_path("my.py:f") and named_kernels.is_path("my.py") and not named_kernels.is_path("matmul")


# containment --------------------------------------------------------------------------------------------------------
WILD = """
import os, pickle, signal, struct, sys, threading, time
from tilewright.ir import KernelBuilder, float32

def make_kernel(m=8, n=16):
    kb = KernelBuilder("mine")
    i, j = kb.axis("m", m), kb.axis("n", n)
    x = kb.input("x", (m, n), float32)
    kb.store("y", float32, (m, n), (i, j), x[i, j] * 2.0)
    return kb.build()

def prints():
    print("from python")
    os.system("echo from a child")
    os.write(1, b"from the descriptor")
    return make_kernel()

def closes_output():
    sys.stdout.close()
    os.close(1)
    os.close(2)
    return make_kernel()

def floods():
    print("x" * 5_000_000)
    return make_kernel()

def forks():
    os.fork()
    return make_kernel()

def leaves_a_child():
    if not os.fork():
        time.sleep(1000)
    return make_kernel()

def leaves_a_thread():
    threading.Thread(target=endless).start()
    return make_kernel()

def ignores_signals():
    for s in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(s, signal.SIG_IGN)
    return make_kernel()

def exits():
    sys.exit(7)

def exits_hard():
    os._exit(3)

def dies():
    os.kill(os.getpid(), signal.SIGSEGV)

def interrupts():
    raise KeyboardInterrupt

def asks():
    input("how large? ")

def endless():
    while True:
        pass

def closes_everything():
    os.closerange(0, 100)
    return make_kernel()

def sends_something_else():
    class Evil:
        def __reduce__(self):
            return open, (os.environ["PLANTED"], "w")
    payload = pickle.dumps(("kernel", Evil(), (), (), ()))
    for fd in range(3, 20):
        try:
            os.write(fd, struct.pack("<8sQ", b"tw-kern1", len(payload)) + payload)
        except OSError:
            pass
    os._exit(0)
"""


@pytest.fixture
def wild(tmp_path):
    path = tmp_path / "wild.py"
    path.write_text(WILD)
    return str(path)


@pytest.mark.parametrize("name", ["closes_output", "floods", "forks", "leaves_a_child", "leaves_a_thread", "ignores_signals"])
def test_what_a_file_does_besides_stays_in_its_process(wild, name):
    assert named_kernels.make(f"{wild}:{name}").buffers[0].shape == (8, 16)


def test_prints_go_to_standard_error(wild, capfd):
    assert named_kernels.make(f"{wild}:prints").name == "mine"
    said = capfd.readouterr()
    assert said.out == "" and all(f"from {what}" in said.err for what in ("python", "a child", "the descriptor"))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("exits", r"called sys.exit\(7\); it must return a tilewright Kernel"),
        ("exits_hard", r"ended the process that ran it \(exit code 3\)"),
        ("dies", r"ended the process that ran it \(SIGSEGV\)"),
        ("interrupts", r"failed: .*KeyboardInterrupt"),
        ("asks", r"EOFError"),
        ("closes_everything", r"ended the process that ran it"),
    ],
)
def test_a_file_cannot_end_or_hold_who_asked(wild, name, message):
    with pytest.raises(KernelError, match=message):
        named_kernels.make(f"{wild}:{name}")


@pytest.mark.slow
def test_an_endless_file_has_a_deadline(wild, monkeypatch):
    monkeypatch.setattr("tilewright.named_kernels.user_file.DEADLINE_S", 1.0)
    with pytest.raises(KernelError, match="did not return within 1 s"):
        named_kernels.make(f"{wild}:endless")


def test_an_answer_is_data(wild, tmp_path, monkeypatch):
    monkeypatch.setenv("PLANTED", str(tmp_path / "planted"))
    with pytest.raises(KernelError, match=r"did not hand back a Kernel that can be read .*open is no part of a kernel"):
        named_kernels.make(f"{wild}:sends_something_else")
    assert not (tmp_path / "planted").exists()


def test_numpys_numbers_are_numbers(tmp_path):
    (tmp_path / "np.py").write_text(GOOD.replace("m=8", "m=__import__('numpy').int64(8)"))
    shape = named_kernels.make(f"{tmp_path}/np.py").buffers[0].shape
    assert shape == (8, 16) and [type(x) for x in shape] == [int, int]


def test_a_file_alone_lists_its_functions(tmp_path):
    (tmp_path / "two.py").write_text("from functools import partial\ndef first(m=8): ...\ndef second(m=8): ...\n")
    with pytest.raises(KernelError, match=r"two\.py names a file: name a function in it too, .*two\.py:FUNCTION \(it has first, second\)"):
        named_kernels.make(str(tmp_path / "two.py"))
