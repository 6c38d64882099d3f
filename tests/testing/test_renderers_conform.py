"""Renderers of ours keep what `testing.renderers` says that renderers promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tilewright import devices, renderers
from tilewright.renderers import Source
from tilewright.targets import named
from tilewright.testing.renderers import RendererTestCase

pytestmark = pytest.mark.slow


class TestLlvm(RendererTestCase):
    target = named("x86-64-v3")

    def build(self, source: Source) -> None:
        assert devices.get("cpu").build(source)


class TestC(RendererTestCase):
    target = replace(named("x86-64-v3"), lang="c")


class TestCuda(RendererTestCase):
    target = named("sm_80")


class TestOpenCl(RendererTestCase):
    target = named("opencl-gpu")


def test_a_renderer_that_counts_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = iter(range(10**6))
    case = TestLlvm()
    program = next(case.programs(kernel_of("add")))
    assert renderers.render(program, TestLlvm.target)
    real = renderers.base._RENDERERS["llvm"]
    monkeypatch.setitem(renderers.base._RENDERERS, "llvm", lambda p, t: real(p, t) + f"; {next(count)}\n")
    with pytest.raises(AssertionError):
        case.test_the_same_program_gives_the_same_text(kernel_of("add"))


def kernel_of(name: str) -> Any:
    from tilewright.named_kernels import get

    return get(name).kernel(get(name).odd_shape)
