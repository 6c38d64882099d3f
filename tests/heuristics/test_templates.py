"""Templates: parameters with choices, and options made of one choice each."""

from __future__ import annotations

import itertools
import random

import pytest
from tilewright import kernels, targets
from tilewright.heuristics import templates
from tilewright.ir import OptError
from tilewright.opts import apply, parse
from tilewright.opts.opt import dumps

TARGET = targets.named("znver5")


@pytest.mark.many
@pytest.mark.parametrize("name", kernels.NAMES)
def test_every_kernel_has_one_whose_choices_make_legal_schedules(name: str) -> None:
    kernel = kernels.make(name)
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
    found = templates(kernels.make("matmul"), TARGET, 2)
    assert [t.name for t in found] == ["contraction", "rows"]
    assert [t.name for t in templates(kernels.make("softmax"), TARGET, 2)] == ["rows"]


def test_each_parameter_matters() -> None:
    kernel = kernels.make("matmul")
    template = templates(kernel, TARGET, 2)[0]
    middle = {p: choices[len(choices) // 2] for p, choices in template.params.items()} | {"kc": 256, "rows": 1}
    for p, choices in template.params.items():
        made = {template.make({**middle, p: c}) for c in choices}
        assert len(made) > 1, p


def test_choices_fit_a_small_shape() -> None:
    kernel = kernels.make("matmul", {"m": 4, "n": 16, "k": 8})
    template = templates(kernel, TARGET, 1)[0]
    for values in itertools.islice(itertools.product(*template.params.values()), 0, None, 7):
        opts = template.make(dict(zip(template.params, values, strict=True)))
        assert all(o.op != "UPCAST" or o.on != "m" or o.amount <= 4 for o in opts)
