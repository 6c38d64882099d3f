"""References that compiled code makes, and special inputs that are compared in parts."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tilewright.devices.cpu.device import CpuDevice
from tilewright.ir import Kernel, KernelBuilder, cast, exp, float32, float64, int8, sqrt, where
from tilewright.ir.evaluation import evaluate, evaluate_error
from tilewright.ir.evaluation.bounded import ERROR, bounded
from tilewright.ir.evaluation.sampling import evaluation_work, reduced_points
from tilewright.measure.checking import compiled_references as compiled_reference
from tilewright.measure.checking import verify as special_references
from tilewright.measure.checking.compiled_references import compiled_expectations
from tilewright.measure.checking.verify import expectations, special_expectations
from tilewright.measure.inputs import generate, generate_special
from tilewright.measure.processes import process

pytestmark = pytest.mark.slow


def forces(n: int = 70) -> Kernel:
    """Three sums that share an inverse distance; conditions on inputs; a value decoded from integers."""
    kb = KernelBuilder("forces")
    i, j = kb.axis("i", n), kb.axis("j", n)
    p, w, s = kb.input("p", (n, 3), float32), kb.input("w", (n,), int8), kb.input("s", (n // 10,), float32)
    d = [p[j, c] - p[i, c] for c in range(3)]
    near = d[0] * d[0] + d[1] * d[1] + d[2] * d[2] + 0.01
    mass = where(p[j, 0] > 0.0, cast(w[j], float32) * s[j // 10], 1.0)
    for c in range(3):
        total = kb.sum(f"t{c}", (i,), j, d[c] * mass / (near * sqrt(near)))
        kb.store(f"f{c}", float32, (n,), (i,), total[i])
    return kb.build()


@pytest.fixture
def light(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_reference, "HOST_ELEMENTS", 0)
    monkeypatch.setattr(special_references, "SPECIAL_WORK", 0)
    monkeypatch.setattr(special_references, "SAMPLED_WORK", 1)


@pytest.mark.parametrize("whole", [False, True])
def test_compiled_code_gives_what_numpy_gives(light: None, whole: bool) -> None:
    kernel = forces()
    inputs = generate(kernel, {}, 3, whole)
    got = compiled_expectations(kernel, inputs, False)
    assert got is not None
    for name, want in expectations(kernel, inputs, {}).items():
        e = got[name]
        assert (e.dtype, e.shape, e.free, e.plain) == (want.dtype, want.shape, None, want.plain)
        assert want.weight is not None and e.weight is not None
        assert float((np.abs(e.value - want.value) * want.weight).max()) < 1e-6
        np.testing.assert_allclose(e.weight, want.weight, rtol=1e-6)


def test_results_have_the_shape_that_the_kernel_says(light: None) -> None:
    """What is compiled is in normal form, where both axes are one; what overflows on the way is looked for in the kernel's rows."""
    kb = KernelBuilder("scaled")
    i, j = kb.axis("m", 60), kb.axis("n", 100)
    x, y = kb.input("x", (60, 100), float32), kb.input("y", (60, 100), float32)
    kb.store("z", float32, (60, 100), (i, j), exp(x[i, j]) * y[i, j])
    kernel = kb.build()
    inputs = generate(kernel, {}, 3)
    inputs["x"][44, 77], inputs["y"][44, 77] = 89.0, 1e-3  # its exponential is too large for float32
    got, want = compiled_expectations(kernel, inputs, False), expectations(kernel, inputs, {})["z"]
    assert got is not None and got["z"].shape == want.shape == (60, 100)
    np.testing.assert_allclose(got["z"].value, want.value, rtol=1e-9)


@pytest.mark.parametrize("fault", ["wrong", "killed"])
def test_code_that_is_wrong_or_dies_makes_no_reference(light: None, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = forces()
    inputs = generate(kernel, {}, 3)
    if fault == "wrong":
        once = compiled_reference._computed

        def spoilt(made: Kernel, given: dict[str, np.ndarray], told: Callable[[float], None]) -> dict[str, np.ndarray]:
            arrays = once(made, given, told)
            arrays["f1"][-1] *= 1.0 + 1e-3  # one element, at an end
            return arrays

        monkeypatch.setattr(compiled_reference, "_computed", spoilt)
    else:
        monkeypatch.setattr(process, "die_with_parent", lambda parent: os.kill(os.getpid(), signal.SIGKILL))
    assert compiled_expectations(kernel, inputs, False) is None


def test_light_kernels_and_those_without_a_formula_are_left_to_numpy(light: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KernelBuilder("counts")
    i = kb.axis("i", 64)
    x = kb.input("x", (64,), int8, range=(0, 3))
    kb.store("h", float32, (4,), (i,), cast(x[i], float32), indices=(x[i],), combine="add")
    counts = kb.build()
    assert compiled_expectations(counts, generate(counts, {}, 3), False) is None
    monkeypatch.setattr(compiled_reference, "HOST_ELEMENTS", 1 << 26)
    kernel = forces()
    assert compiled_expectations(kernel, generate(kernel, {}, 3), False) is None


def test_products_of_three_are_left_to_numpy(light: None) -> None:
    """A plain loop multiplies all three at every point; NumPy multiplies two first."""
    kb = KernelBuilder("congruence")
    b, i, l, j, k = (kb.axis(*a) for a in (("b", 2), ("i", 12), ("l", 12), ("j", 12), ("k", 12)))
    a, x = kb.input("a", (2, 12, 12), float32), kb.input("x", (2, 12, 12), float32)
    total = kb.sum("total", (b, i, l), (j, k), a[b, i, j] * x[b, j, k] * a[b, l, k])
    kb.store("y", float32, (2, 12, 12), (b, i, l), total[b, i, l])
    kernel = kb.build()
    assert (reduced_points(kernel), evaluation_work(kernel)) == (2 * 12**4, 2 * 12**3 + 2 * 4 * 12**2)
    assert compiled_expectations(kernel, generate(kernel, {}, 3), False) is None


@pytest.mark.parametrize("compiled", [False, True])
def test_exact_zeros_of_float64_are_multiplied_exactly(light: None, compiled: bool) -> None:
    """The least subnormal number is no error of theirs: arithmetic with those takes a hundred times as long."""
    kb = KernelBuilder("scaled")
    i = kb.axis("i", 64)
    x, y = kb.input("x", (64,), float64), kb.input("y", (64,), float64)
    kb.store("z", float64, (64,), (i,), x[i] * y[i])
    kernel = kb.build()
    inputs = {"x": np.where(np.arange(64) % 2, 0.0, 1.5), "y": np.full(64, 3.0)}
    if compiled:
        made = bounded(kernel)
        assert made is not None
        error = evaluate(made, inputs)[f"z{ERROR}"]
    else:
        error = evaluate_error(kernel, inputs)["z"][1] * float64.eps
    assert (error[1::2] == 0.0).all() and (error[::2] >= 4.5 * float64.eps).all()


@pytest.mark.parametrize("dims", [(300,), (300, 5), (300, 700)])
def test_the_parts_have_every_kind_of_special_value(light: None, dims: tuple[int, ...]) -> None:
    kb = KernelBuilder("doubled")
    at = tuple(kb.axis(f"i{d}", n) for d, n in enumerate(dims))
    x, y = kb.input("x", dims, float32), kb.input("y", dims, float32)
    kb.store("u", float32, dims, at, 2.0 * x[at])
    kb.store("v", float32, dims, at, 2.0 * y[at])
    kernel = kb.build()
    for seed in range(6):
        inputs = generate_special(kernel, {}, seed)
        for e in special_expectations(kernel, inputs, {}, seed).values():
            assert e.free is not None
            seen = e.value[~e.free]
            assert all(f(seen).any() for f in (np.isnan, np.isposinf, np.isneginf)), (e.name, seed)


def test_special_inputs_of_heavy_kernels_are_compared_in_parts(light: None, monkeypatch: pytest.MonkeyPatch) -> None:
    kb = KernelBuilder("lengths")
    i, j = kb.axis("i", 300), kb.axis("j", 9)
    x = kb.input("x", (300, 9), float32)
    kb.store("y", float32, (300, 9), (i, j), sqrt(x[i, j] * x[i, j] + 1.0))
    kernel = kb.build()
    inputs = generate_special(kernel, {}, 1)
    parts = special_expectations(kernel, inputs, {}, 1)["y"]
    monkeypatch.setattr(special_references, "SPECIAL_WORK", 1 << 40)
    whole = special_expectations(kernel, inputs, {}, 1)["y"]
    assert parts.free is not None and whole.weight is not None and parts.weight is not None
    looked = ~parts.free.reshape(300, 9)[:, 8]
    assert looked[:32].all() and looked[-12:].all() and 44 < looked.sum() <= 64
    assert whole.looked == 1.0 and parts.looked == pytest.approx(looked.mean(), abs=0.01)
    assert parts.strict == pytest.approx(whole.strict, abs=0.1)
    seen = ~parts.free
    np.testing.assert_array_equal(parts.value[seen], whole.value[seen])
    np.testing.assert_allclose(parts.weight[seen], whole.weight[seen], rtol=1e-6)


def test_a_second_run_compiles_nothing(light: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A search prepares the same reference in several processes, and is told what only the first had to do."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built: list[str] = []
    before = CpuDevice.build
    monkeypatch.setattr(CpuDevice, "build", lambda self, source: (built.append(source.sha), before(self, source))[1])
    kernel = forces()
    inputs = generate(kernel, {}, 3)
    spent: list[float] = []
    first, second = (compiled_expectations(kernel, inputs, False, once=spent.append) for _ in range(2))
    assert first is not None and second is not None and len(built) == 1
    assert all((first[name].value == e.value).all() for name, e in second.items())
    assert len(spent) == 2 and spent[0] > spent[1] > 0.0
