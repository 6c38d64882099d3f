"""Templates: parameters with choices, and options made of one choice each."""

from __future__ import annotations

import itertools
import random

import pytest
from tilewright import named_kernels, targets
from tilewright.heuristics import templates
from tilewright.ir import KernelBuilder, OptError, float32, sqrt
from tilewright.ir.kernel import Kernel
from tilewright.opts import apply, parse
from tilewright.opts.opt import Opts, dumps

TARGET = targets.named("znver5")


@pytest.mark.many
@pytest.mark.parametrize("name", named_kernels.NAMES)
def test_every_kernel_has_one_whose_choices_make_legal_schedules(name: str) -> None:
    kernel = named_kernels.make(name)
    for template in templates(kernel, TARGET, 2):
        assert all(len(choices) >= 1 and len(set(choices)) == len(choices) for choices in template.params.values())
        rng, ok, seen = random.Random(0), 0, set()
        for _ in range(24):
            opts = template.make({p: rng.choice(choices) for p, choices in template.params.items()})
            assert parse(dumps(opts)) == opts
            seen.add(opts)
            try:
                apply(kernel, opts, TARGET)
            except OptError:
                continue
            ok += 1
        assert ok, f"no legal schedule in 24 of {template.name}"
        assert len(seen) > 2


def test_a_product_is_a_contraction_and_a_row_kernel() -> None:
    found = templates(named_kernels.make("matmul"), TARGET, 2)
    assert [t.name for t in found] == ["contraction", "rows"]
    assert [t.name for t in templates(named_kernels.make("softmax"), TARGET, 2)] == ["rows"]


def test_each_parameter_matters() -> None:
    kernel = named_kernels.make("matmul")
    template = templates(kernel, TARGET, 2)[0]
    middle = {p: choices[len(choices) // 2] for p, choices in template.params.items()} | {"kc": 256, "rows": 1}
    for p, choices in template.params.items():
        made = {template.make({**middle, p: c}) for c in choices}
        assert len(made) > 1, p


def test_choices_fit_a_small_shape() -> None:
    kernel = named_kernels.make("matmul", {"m": 4, "n": 16, "k": 8})
    template = templates(kernel, TARGET, 1)[0]
    for values in itertools.islice(itertools.product(*template.params.values()), 0, None, 7):
        opts = template.make(dict(zip(template.params, values, strict=True)))
        assert all(o.op != "UPCAST" or o.on != "m" or o.amount <= 4 for o in opts)


GPU = targets.named("sm_90a")


@pytest.mark.parametrize(("dtype", "names"), [("bfloat16", ["warpgroups", "units", "tiles", "points"]), ("float32", ["tiles", "points"])])
def test_a_gpu_has_one_of_matrix_instructions_where_they_are_allowed(dtype: str, names: list[str]) -> None:
    kernel = named_kernels.make("matmul", {"m": 512, "n": 512, "k": 512}, dtype)
    found = templates(kernel, GPU)
    assert [t.name for t in found] == names
    assert [t.name for t in templates(kernel, GPU, allowed=frozenset({"REASSOC", "DOWNCONVERT"}))][:2] == ["warpgroups", "units"]


def test_numbers_of_a_gpus_template_make_its_schedule() -> None:
    kernel = named_kernels.make("matmul", {"m": 1024, "n": 1024, "k": 1024}, "bfloat16")
    groups, units = templates(kernel, GPU)[:2]
    made = groups.make({"consumers": 2, "columns": 128, "depth": 4, "persist": 0, "sk": 1, "cluster": 2, "band": 2})
    s = apply(kernel, made, GPU)
    assert (s.group, s.launch.cluster, s.launch.persist, s.swizzle) == (256, 2, 0, 2) and "wgmma.m64n128k16.bf16" in str(made)
    base = {"wm": 2, "wn": 2, "um": 64, "un": 64, "kt": 64, "depth": 3, "band": 8, "sk": 1}
    s = apply(kernel, units.make(base), GPU)
    assert s.group == 128 and s.swizzle == 8 and {p.depth for p in s.stages.values()} == {3}
    assert all(len({units.make({**base, p: c}) for c in choices}) > 1 for p, choices in units.params.items())
    rng, ok = random.Random(1), 0
    for _ in range(60):
        try:
            apply(kernel, units.make({p: rng.choice(choices) for p, choices in units.params.items()}), GPU)
        except OptError:
            continue
        ok += 1
    assert ok > 10


def test_scatters_and_tiny_axes_have_templates() -> None:
    """Every choice gives a list that can be read back, and some are legal."""
    kb = KernelBuilder("vectors")
    i, c = kb.axis("i", 64), kb.axis("c", 3)
    x, s = kb.input("x", (64, 3), float32), kb.input("s", (64,), float32)
    kb.store("y", float32, (64, 3), (i, c), x[i, c] / sqrt(s[i]))
    for kernel, name in ((named_kernels.make("embedding_grad"), "copies of dtable"), (kb.build(), "tiny axes")):
        (template,) = [t for t in templates(kernel, TARGET, 2) if t.name == name]
        lists = {template.make(dict(zip(template.params, p, strict=True))) for p in itertools.product(*template.params.values())}
        assert all(parse(dumps(o)) == o for o in lists)
        assert sum(_legal(kernel, o) for o in lists) > 3


def _legal(kernel: Kernel, opts: Opts) -> bool:
    try:
        return bool(apply(kernel, opts, TARGET))
    except OptError:
        return False
