"""The examples learn as PyTorch does: the first steps' losses against recorded ones of the same models there
(`tests/torch_twins.py`), and against PyTorch itself where it is installed."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch_twins
from tilewright.examples import char_mlp, gpt2, train_convnet, train_mlp

pytestmark = pytest.mark.slow
EXAMPLES: dict[str, Callable[..., Any]] = {
    "train_mlp": train_mlp.main,
    "train_convnet": train_convnet.main,
    "char_mlp": lambda steps, say: char_mlp.main(steps, letters_written=0, say=say),
    "gpt2": lambda steps, say: gpt2.main(steps, gpt2.Size(*torch_twins.SMALL), 2, say=say, tokens_written=1),
}
FIRST = json.loads(torch_twins.RECORDED.read_text())["first"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_first_steps(name: str) -> None:
    said: list[str] = []
    losses = EXAMPLES[name](steps=torch_twins.STEPS[name], say=said.append)
    np.testing.assert_allclose(losses, FIRST[name], rtol=2e-3)
    assert np.all(np.array(losses)[..., -1] < np.array(losses)[..., 0]) and any("loss" in s for s in said)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
@pytest.mark.parametrize("name", EXAMPLES)
def test_recorded_losses_are_pytorch_s(name: str) -> None:
    np.testing.assert_allclose(torch_twins.TWINS[name](torch_twins.STEPS[name]), FIRST[name], rtol=1e-3)
