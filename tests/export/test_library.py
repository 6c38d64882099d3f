"""An exported library gives the bits of the captured function, without Python, from memory that the caller gives."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tilewright import Tensor, Var, cond, export, fori_loop, nn, optim, scan, value_and_grad, while_loop, xp
from tilewright.cli import main
from tilewright.devices import get
from tilewright.ir.errors import UsageError

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (shutil.which("gcc") and shutil.which("make")), reason="it needs gcc and make")]


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache.db"))


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)


W1, B1, W2, KERNEL = Tensor(normal(24, 32)), Tensor(normal(32)), Tensor(normal(32, 10)), Tensor(normal(4, 3, 3, 3))


def perceptron(x: Tensor) -> Tensor:
    return ((x @ W1 + B1).gelu() @ W2).softmax(-1)


def attention(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return (q @ k.mT / 4).softmax(-1) @ v, q + 1


def convolution(x: Tensor) -> Tensor:
    return nn.max_pool(nn.conv(x, KERNEL, padding=1).relu(), 2)


def words(it: Tensor, state: Tensor, weights: Tensor, words: Tensor, y: Tensor, for_: Tensor) -> Tensor:
    return it + state * weights - words + y * for_


def tree(parameters: dict[str, Any], x: Tensor) -> dict[str, Tensor]:
    return {"y": x @ parameters["w"] + parameters["b"][0]}


def same(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x, x * 2, x.reshape((-1,))


def sorts(x: Tensor, i: Tensor, h: Tensor) -> tuple[Tensor, ...]:
    """Ties, NaN, both ends, each axis; halves by their bits."""
    ordered = [f(a, axis=d, descending=back) for a in (x, i) for f in (xp.sort, xp.argsort) for d, back in ((0, True), (1, False))]
    return (*ordered, *x.topk(3, axis=1), *(xp.argsort(h, descending=back) for back in (False, True)))


def loops(h: Tensor, xs: Tensor) -> Any:
    """Loops are loops in C: turned, with a counter, and with a test."""
    after = xp.concat([xs[1:], xs[:1] * 0])
    h, ys = scan(lambda h, x: ((x[0] - x[1] + h @ W1[:, :24] * 0.1).tanh(), h), h, (xs, after), reverse=True)
    h = fori_loop(0, 3, lambda i, h: h * 0.5 + i, h)
    return cond(h.sum() > 0, lambda h: h, lambda h: -h, h), ys


def inner_loops(x: Tensor, places: Tensor) -> Any:
    """A loop in a loop, rows that data picks, a loop that data ends, a product by weights that stay packed, and gradients of a loop."""

    def step(h: Tensor, row: Tensor) -> tuple[Tensor, Tensor]:
        h = fori_loop(0, 3, lambda i, h: (h @ W1[:, :24]).tanh() + i, h)
        return h, h[places].sum(0)

    h, sums = scan(step, x[0], x)
    doubled = while_loop(lambda h: abs(h).max() < 100, lambda h: h * 2 + 1, h)
    loss = lambda x: scan(lambda c, r: ((c + r).tanh(), None), x[0, 0], x[:, 0])[0].sum()  # noqa: E731
    return sums, doubled, *value_and_grad(loss)(x)


def loops_with_sorts(x: Tensor) -> Any:
    """What NumPy computes in a loop leaves as the steps of it."""
    return scan(lambda c, r: (xp.sort(c + r), c), x[0], x)


BYTES = np.random.default_rng(0)
W3 = Tensor(BYTES.integers(-128, 128, (40, 33)).astype(np.int8))


def products_of_bytes(x: Tensor) -> tuple[Tensor, Tensor]:
    sums = x.astype("int32") @ W3.astype("int32")
    return sums, (sums.astype("float32") * 0.001).gelu().round().astype("int8")


TIES = np.float32([[3, np.nan, 1, 3, -np.inf, 1], [2, 2, np.inf, -5, np.nan, 2], [0, 7, -7, 0, 7, 1]])
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "perceptron": (perceptron, (normal(7, 24),)),
    "attention": (attention, (normal(2, 3, 17, 16), normal(2, 3, 17, 16, seed=1), normal(2, 3, 17, 16, seed=2))),
    "convolution": (convolution, (normal(2, 3, 12, 10),)),
    "loops": (loops, (normal(3, 24), normal(4, 3, 24))),
    "inner_loops": (inner_loops, (normal(4, 5, 24), np.array([0, 3, 3]))),
    "loops_with_sorts": (loops_with_sorts, (normal(4, 9),)),
    "tree": (tree, ({"w": normal(8, 5), "b": [normal(5)]}, normal(3, 8))),
    "halves": (lambda x: (x * 2 + 1).softmax(-1), (normal(7, 33, dtype="float16"),)),
    "doubles": (lambda x: xp.cumulative_sum(x, axis=1), (normal(30, 70, dtype="float64"),)),
    "integers": (lambda x: x // 3 + (x % 5), (np.arange(-50, 50),)),
    "random": (lambda x: nn.dropout(x, 0.5, (3, 4)), (normal(16, 16),)),
    "sorts": (sorts, (TIES, np.array([[-128, 127, 5], [5, -1, 5]], np.int8), TIES[0].astype(np.float16))),
    "same": (same, (normal(4, 5),)),
    "bytes": (products_of_bytes, (BYTES.integers(0, 256, (9, 40)).astype(np.uint8),)),
    "words": (words, tuple(normal(3, 4, seed=i) for i in range(6))),
}


def outcome(folder: Path, name: str, threads: int = 1) -> str:
    subprocess.run(["make", "-s", f"{name}_test"], cwd=folder, check=True, capture_output=True)
    done = subprocess.run([f"./{name}_test", str(threads)], cwd=folder, capture_output=True, text=True)
    return (done.stdout + done.stderr).strip()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_those_of_the_captured_function(name: str, tmp_path: Path) -> None:
    function, args = FUNCTIONS[name]
    export.write(tmp_path / "lib", function, *args, name=name, threads=1)
    assert outcome(tmp_path / "lib", name) == "equal bits"


CLANG = next((c for c in ("clang", *(f"clang-{v}" for v in range(22, 12, -1))) if shutil.which(c)), "")
ARM = "aarch64-linux-gnu-gcc"


@pytest.mark.parametrize("compiler", ["clang", "aarch64", "valgrind"])
def test_other_compilers_and_processors(compiler: str, tmp_path: Path) -> None:
    """clang's code has the bits of gcc's; an Arm processor's, by an emulator, those of the call but for rounding; valgrind finds nothing."""
    cc, target, before = {
        "clang": (CLANG, None, []),
        "aarch64": (ARM, "neon", ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"]),
        "valgrind": ("gcc", "v3", ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full"]),
    }[compiler]
    if not all(map(shutil.which, [cc or "clang", *before[:1]])):
        pytest.skip(f"it needs {cc or 'clang'} {' '.join(before[:1])}")
    for name in ("perceptron", "convolution", "halves", "random", "bytes", "sorts", "inner_loops"):
        function, args = FUNCTIONS[name]
        export.write(tmp_path / name, function, *args, name=name, threads=2, target=target)
        subprocess.run(["make", "-s", f"{name}_test", f"CC={cc}", "CFLAGS=-O1"], cwd=tmp_path / name, check=True, capture_output=True)
        done = subprocess.run([*before, f"./{name}_test", "2"], cwd=tmp_path / name, capture_output=True, text=True)
        wanted = "equal bits" if get("cpu").target.name == target or target is None else "equal but for rounding"
        assert (done.stdout.strip(), done.stderr, done.returncode) == (wanted, "", 0)


def test_a_library_is_called_from_python_by_several_threads(tmp_path: Path) -> None:
    export.write(tmp_path / "lib", perceptron, normal(7, 24), threads=2)
    for threads in (1, 3):
        library = export.load(tmp_path / "lib", threads)
        for seed in range(3):
            x = normal(7, 24, seed=seed)
            np.testing.assert_allclose(library(x), perceptron(Tensor(x)).numpy(), 1e-5, 1e-6)
        np.testing.assert_array_equal(library(x=x), library(x))
    with pytest.raises(UsageError, match=r"x is float32\[7, 24\], and float32\[7, 25\] is given"):
        library(normal(7, 25))
    with pytest.raises(UsageError, match="no input 'z'"):
        library(z=x)
    with pytest.raises(UsageError, match="x is missing"):
        library()


def test_instances_keep_their_own_state(tmp_path: Path) -> None:
    total = Tensor(np.float32([1, 2, 3]))

    def count(x: Tensor) -> Tensor:
        total.assign(total + x)
        return total * 2

    export.write(tmp_path / "lib", count, np.ones(3, np.float32))
    assert outcome(tmp_path / "lib", "count") == "equal bits"
    one, other = export.load(tmp_path / "lib"), export.load(tmp_path / "lib")
    x = np.ones(3, np.float32)
    np.testing.assert_array_equal(one(x), [4, 6, 8])
    np.testing.assert_array_equal(one(x), [6, 8, 10])
    np.testing.assert_array_equal(other(x), [4, 6, 8])


def test_a_training_step(tmp_path: Path) -> None:
    weights, adam = {"w": Tensor(normal(16, 4)), "b": Tensor(normal(4))}, optim.adam(1e-2)

    def loss(p: Any, x: Tensor, y: Tensor) -> Tensor:
        return ((x @ p["w"] + p["b"] - y) ** 2).mean()

    def train(p: Any, state: Any, x: Tensor, y: Tensor) -> Any:
        value, gradient = value_and_grad(loss)(p, x, y)
        return value, *adam.update(p, gradient, state)

    export.write(tmp_path / "lib", train, weights, adam.init(weights), normal(32, 16), normal(32, 4))
    assert outcome(tmp_path / "lib", "train") == "equal bits"


def test_sizes_come_with_calls(tmp_path: Path) -> None:
    """Bits are those of the captured function at every size; a size out of range is an error."""
    from tilewright import jit
    from tilewright.ir.errors import DeviceError

    def rows(x: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        y = x @ W1
        order = xp.argsort(x, axis=0, descending=True)
        return (
            y.softmax(-1),
            x.reshape((-1,)) * 2,
            (y + b)[:, 1:].sum(0),
            order,
            *x.topk(3, axis=1),
            xp.sort(x, axis=0),
            *scan(lambda c, r: ((c + r).tanh(), c), b, y),
        )

    symbols = {"x": {0: Var("n", 1, 300)}}
    export.write(tmp_path / "lib", rows, normal(37, 24), normal(32), symbols=symbols, threads=1)
    assert outcome(tmp_path / "lib", "rows") == "equal bits"
    library, captured = export.load(tmp_path / "lib"), jit(rows, symbols=symbols, threads=1)
    for n in (1, 17, 64, 300):
        x = normal(n, 24)
        for have, want in zip(library(x, normal(32)), captured(Tensor(x), Tensor(normal(32))), strict=True):
            assert have.tobytes() == want.numpy().tobytes()
    with pytest.raises(DeviceError, match="size is not in its range"):
        library(normal(301, 24), normal(32))
    with pytest.raises(UsageError, match=r"float32\[300, 24\], and float32\[300, 23\]"):
        library(normal(300, 23), normal(32))


@pytest.mark.parametrize("given", [np.float32(3), np.int64(3), memoryview(np.full(2, 3, np.float32))])
def test_numbers_of_numpy_are_inputs_as_in_captured_functions(given: Any, tmp_path: Path) -> None:
    export.write(tmp_path / "lib", lambda x, y: x * y, given, np.ones(2, np.float32), name="lib")
    facts = json.loads((tmp_path / "lib" / "tilewright-export.json").read_text())
    assert [a["name"] for a in facts["arrays"]] == ["x", "y", "y_"]


def test_an_index_outside_is_an_error(tmp_path: Path) -> None:
    from tilewright.ir.errors import DeviceError

    export.write(tmp_path / "lib", lambda x, i: x[i], normal(50, 3), np.array([4, -1, 49]), name="pick")
    assert outcome(tmp_path / "lib", "pick") == "equal bits"
    library, x = export.load(tmp_path / "lib"), normal(50, 3)
    np.testing.assert_array_equal(library(x, np.array([0, -50, 7])), x[[0, -50, 7]])
    for outside in (50, -51):
        with pytest.raises(DeviceError, match="index lies outside"):
            library(x, np.array([0, outside, 7]))
    symbols = {"x": {0: Var("m", 1, 9)}, "i": {0: Var("n", 0, 7)}}
    export.write(tmp_path / "sized", lambda x, i: x[i], normal(5, 3), np.array([4, -5]), name="pick", symbols=symbols)
    assert outcome(tmp_path / "sized", "pick") == "equal bits"
    library = export.load(tmp_path / "sized")
    for m, inside, outside in ((1, [0, -1], [1]), (9, [8, -9, 0], [0, 9]), (4, [], [1, -5])):
        np.testing.assert_array_equal(library(x[:m], np.array(inside, int)), x[:m][np.array(inside, int)])
        with pytest.raises(DeviceError, match="index lies outside"):
            library(x[:m], np.array(outside))


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    export.write(tmp_path / "lib", attention, *FUNCTIONS["attention"][1], threads=2)
    for kind in ("address,undefined", "thread"):
        subprocess.run(["make", "-s", "clean"], cwd=tmp_path / "lib", check=True)
        flags = f"-O1 -g -fsanitize={kind} -fno-sanitize-recover=all"
        built = subprocess.run(["make", "-s", "attention_test", f"CFLAGS={flags}"], cwd=tmp_path / "lib", capture_output=True, text=True)
        if "cannot find" in built.stderr:
            pytest.skip("this gcc has no sanitizers")
        assert built.returncode == 0, built.stderr
        done = subprocess.run(["./attention_test", "3"], cwd=tmp_path / "lib", capture_output=True, text=True)
        if "FATAL: ThreadSanitizer" in done.stderr:
            continue  # memory is laid out in a way that it does not know
        assert done.stdout.strip() == "equal bits" and done.stderr == "", done.stderr[:2000]


USER = r"""
#include "add.h"
#include <stdio.h>
#include <stdlib.h>
int main(void) {
    _Alignas(64) static unsigned char memory[1 << 20];
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {10, 20, 30, 40, 50, 60}, c[6];
    add_instance *it;
    if (add_open(&it, memory, 64, add_weights, 1) != ADD_NO_MEMORY) return 1;
    if (add_open(&it, memory + 8, sizeof memory - 8, add_weights, 1) != ADD_NO_MEMORY) return 2;
    if (add_open(&it, memory, sizeof memory, add_weights, 0) != ADD_THREADS) return 3;
    if (add_open(&it, 0, sizeof memory, add_weights, 1) != ADD_NULL) return 4;
    if (add_open(&it, memory, sizeof memory, add_weights, 1) != ADD_OK) return 5;
    if (add_run(it, a, 0, c) != ADD_NULL) return 6;
    if (add_run(it, a, b, c) != ADD_OK || c[0] != 11 || c[5] != 66) return 7;
    add_close(it);
    return 0;
}
"""


@pytest.mark.parametrize("language", ["c", "c++"])
def test_a_program_of_ones_own(language: str, tmp_path: Path) -> None:
    """A C and a C++ program use the header; errors are codes."""
    export.write_program(tmp_path / "lib", export.of_kernel("add", {"m": 2, "n": 3}, "float32"))
    subprocess.run(["make", "-s", "libadd.a"], cwd=tmp_path / "lib", check=True, capture_output=True)
    compiler = "gcc" if language == "c" else "g++"
    if not shutil.which(compiler):
        pytest.skip(f"it needs {compiler}")
    source = USER.replace("_Alignas(64)", "alignas(64)") if language == "c++" else USER
    (tmp_path / "user").write_text(source)
    command = [
        compiler,
        "-x",
        language,
        str(tmp_path / "user"),
        "-x",
        "none",
        f"-I{tmp_path}/lib",
        str(tmp_path / "lib/libadd.a"),
        "-lpthread",
        "-o",
        str(tmp_path / "it"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    assert subprocess.run([tmp_path / "it"]).returncode == 0


def test_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my.py"
    file.write_text("from tilewright import Tensor\n\ndef step(x: Tensor, w: Tensor):\n    return (x @ w).relu()\n")
    out = str(tmp_path / "lib")
    assert main(["export", f"{file}:step", "--shape", "x=33x20,w=20x17", "--out", out, "--check", "--threads", "1"]) == 0
    assert "equal bits" in capfd.readouterr().out
    facts = json.loads((tmp_path / "lib" / "tilewright-export.json").read_text())
    assert [(a["name"], a["shape"]) for a in facts["arrays"]] == [("x", [33, 20]), ("w", [20, 17]), ("y", [33, 17])]
    (kernel,) = facts["kernels"]
    assert kernel["files"] == ["step_k0.c"] and "in0: float32[33, 20]" in "\n".join(kernel["computes"]) and kernel["from"] == "start"
    assert facts["command"].startswith(f"tune export {file}:step --shape x=33x20,w=20x17 --threads 1")
    assert (
        main(["export", "--kernel", "softmax", "--shape", "m=9,n=33", "--target", "x86-64-v2", "--name", "rows", "--out", out, "--check"])
        == 0
    )
    assert "rows for" in capfd.readouterr().out
    assert main(["export", f"{file}:step", "--shape", "n=1..64,x=nx20,w=20x17", "--out", out, "--check"]) == 0
    assert "takes n from 1 to 64, x: float32[n, 20]" in capfd.readouterr().out
    assert main(["export", f"{file}:step", "--shape", "n=1..64,x=4x20,w=20x17", "--out", out]) == 2
    assert "no array has the size n" in capfd.readouterr().err
    assert main(["export", f"{file}:step", "--out", str(tmp_path / "more")]) == 2 and "give --shape x=64x128" in capfd.readouterr().err
    assert main(["export", "--out", str(tmp_path / "more")]) == 2 and "give one source" in capfd.readouterr().err


def test_an_onnx_model(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    from tilewright.bridges.onnx import export as export_onnx
    from tilewright.bridges.onnx import load

    helper = onnx.helper
    nodes = [helper.make_node("Gemm", ["x", "w"], ["a"], transB=1), helper.make_node("Softmax", ["a"], ["y"])]
    inputs, outputs = [helper.make_tensor_value_info("x", 1, ["batch", 16])], [helper.make_tensor_value_info("y", 1, ["batch", 8])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [onnx.numpy_helper.from_array(normal(8, 16), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "m.onnx")
    export_onnx(tmp_path / "lib", tmp_path / "m.onnx", sizes={"batch": 5}, threads=1)
    assert outcome(tmp_path / "lib", "m_") == "equal bits"
    x = normal(5, 16, seed=3)
    np.testing.assert_allclose(export.load(tmp_path / "lib")(x), load(tmp_path / "m.onnx")(x), 1e-6, 1e-6)
    out = str(tmp_path / "any")
    assert main(["export", str(tmp_path / "m.onnx"), "--shape", "batch=1..40", "--threads", "1", "--out", out, "--check"]) == 0
    library, model = export.load(out), load(tmp_path / "m.onnx", sizes={"batch": (1, 40)}, threads=1)
    for n in (1, 7, 40):
        assert library(normal(n, 16)).tobytes() == model(normal(n, 16)).tobytes()
    assert library(normal(3, 16), batch=3).shape == (3, 8)


def test_weights_are_packed_when_they_are_exported(tmp_path: Path) -> None:
    """Panels take the place of a weight that nothing else reads; a weight that something else reads stays too."""
    weight = Tensor(normal(256, 256))
    x = normal(128, 256)
    for name, function, most in (("product", lambda x: x @ weight, 1.1), ("both", lambda x: (x @ weight, weight * 2), 2.1)):
        export.write(tmp_path / name, function, x, name=name, threads=1)
        assert "weights + " in (tmp_path / name / f"{name}.c").read_text()
        assert (tmp_path / name / f"{name}.weights").stat().st_size <= most * 4 * 256 * 256
        assert outcome(tmp_path / name, name) == "equal bits"
    assert "weights + 0" in (tmp_path / "product" / "product.c").read_text().split("void *arrays[] =")[1].splitlines()[0].split(", ")[-1]


CHOSEN = r"""
#include "product.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static int ran;
#define WRAP(f) void __real_##f(void **, int64_t *, void *, int64_t, int64_t); \
    void __wrap_##f(void **a, int64_t *s, void *m, int64_t lo, int64_t hi) { ran |= 1 << COUNTER; __real_##f(a, s, m, lo, hi); }
#define COUNTER 2
WRAP(product_x86_64_v2_k0_p0)
#undef COUNTER
#define COUNTER 3
WRAP(product_x86_64_v3_k0_p0)
static float x[16 * 24], y[16 * 32];
int main(void) {
    size_t bytes = PRODUCT_MEMORY(1);
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    product_instance *it;
    static const char *const asked[] = {0, "x86-64-v2", "x86-64-v3"};
    for (int i = 0; i < 3; i++) {
        ran = 0;
        if (product_open_for(&it, memory, bytes, product_weights, 1, asked[i])) return 1;
        if (product_run(it, x, y)) return 2;
        printf("%s %d\n", product_target(it), ran);
        product_close(it);
    }
    return product_open_for(&it, memory, bytes, product_weights, 1, "z80") == PRODUCT_PROCESSOR ? 0 : 3;
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="targets of x86-64")
def test_a_library_has_code_for_several_processors(tmp_path: Path) -> None:
    """The linker puts counters before the kernels, which say whose code a call ran; only that of v3 has registers of 256 bits."""
    export.write(tmp_path / "lib", lambda x: x @ W1, normal(16, 24), name="product", target="v2,v3", threads=1)
    subprocess.run(["make", "-s", "libproduct.a"], cwd=tmp_path / "lib", check=True, capture_output=True)
    wide = {v: "ymm" in disassembly(tmp_path / "lib" / f"product_x86_64_{v}_k0.o") for v in ("v2", "v3")}
    assert wide == {"v2": False, "v3": True}
    assert "ymm" not in disassembly(tmp_path / "lib" / "product.o")
    (tmp_path / "user.c").write_text(CHOSEN)
    wraps = [f"-Wl,--wrap=product_x86_64_{v}_k0_p0" for v in ("v2", "v3")]
    command = ["gcc", "user.c", "-Ilib", "lib/libproduct.a", *wraps, "-lpthread", "-o", "it"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(["./it"], cwd=tmp_path, capture_output=True, text=True)
    here = "avx2" in get("cpu").target.features
    if here:
        assert (done.returncode, done.stdout.splitlines()) == (0, ["x86-64-v3 8", "x86-64-v2 4", "x86-64-v3 8"])
    else:
        assert (done.returncode, done.stdout.splitlines()) == (1, ["x86-64-v2 4", "x86-64-v2 4"])
    said = outcome(tmp_path / "lib", "product").splitlines()
    assert said == [
        "x86-64-v3: equal but for rounding" if here else "x86-64-v3: not on this processor",
        "x86-64-v2: equal but for rounding",
    ]
    with pytest.raises(UsageError, match="several architectures"):
        export.write(tmp_path / "more", lambda x: x @ W1, normal(16, 24), target="v2,neon")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="targets of x86-64")
def test_each_processor_has_its_own_instruction_for_products_of_bytes(tmp_path: Path) -> None:
    """A schedule that a processor cannot have, because it lacks the instruction, gives way to the start schedule there."""
    function, args = FUNCTIONS["bytes"]
    export.write(tmp_path / "lib", function, *args, name="bytes", target="v2,v3,v4,sapphirerapids", threads=1)
    texts = {
        w: "".join(f.read_text() for f in (tmp_path / "lib").glob(f"bytes_{w}_k*.c"))
        for w in ("x86_64_v2", "x86_64_v3", "x86_64_v4", "sapphirerapids")
    }
    words = ("_mm512_dpbusd_epi32", "_mm512_madd_epi16", "_mm256_madd_epi16")
    assert [[w for w in words if w in t] for t in texts.values()] == [[], [words[2]], [words[1]], [words[0]]]
    facts = json.loads((tmp_path / "lib" / "tilewright-export.json").read_text())
    assert facts["targets"] == ["sapphirerapids", "x86-64-v4", "x86-64-v3", "x86-64-v2"]
    assert any(len({*k.get("schedules", ())}) > 2 for k in facts["kernels"])
    said = outcome(tmp_path / "lib", "bytes").splitlines()
    assert len(said) == 4 and all("equal" in line or "not on this processor" in line for line in said)


def disassembly(file: Path) -> str:
    return subprocess.run(["objdump", "-d", str(file)], check=True, capture_output=True, text=True).stdout


CALLER = """
import sys, numpy as np
import rows
assert "tilewright" not in sys.modules
x = np.arange(300, dtype=np.float32).reshape(50, 6)
np.save("y.npy", rows.load(threads=2)(x))
try:
    rows.load()(x[:, :5])
except ValueError as e:
    print(e)
try:
    rows.load(target="z80")
except RuntimeError as e:
    print(e)
"""


def test_a_wheel_needs_numpy_alone(tmp_path: Path) -> None:
    """`pip install lib/python` builds it without anything of Tilewright, and the function is called from the wheel."""
    from tilewright import Var

    export.write(tmp_path / "lib", lambda x: x * 2 + 1, normal(7, 6), name="rows", symbols={"x": {0: Var("n", 1, 64)}}, threads=1)
    built = "import sys; sys.path.insert(0, '.'); import build_wheel; print(build_wheel.build_wheel(sys.argv[1]))"
    command = [sys.executable, "-I", "-c", built, str(tmp_path)]
    wheel = subprocess.run(command, cwd=tmp_path / "lib" / "python", check=True, capture_output=True, text=True).stdout.strip()
    with zipfile.ZipFile(tmp_path / wheel) as z:
        z.extractall(tmp_path / "site")
        recorded = {line.split(",")[0] for line in z.read("rows-1.dist-info/RECORD").decode().splitlines()}
        assert recorded == set(z.namelist())
    (tmp_path / "caller.py").write_text(CALLER)
    done = subprocess.run(
        [sys.executable, "caller.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [
        "rows: x is float32[50, 6], and float32[50, 5] is given",
        "rows cannot be opened: the processor lacks instructions that the kernels use, or there is no code for the one that is named",
    ], done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), np.arange(300, dtype=np.float32).reshape(50, 6) * 2 + 1)
