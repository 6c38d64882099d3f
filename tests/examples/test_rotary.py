"""Angles of rotary places as a model's config says them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright.examples import gpt2_text, llama, rotary

SAID: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 200,
    "max_position_embeddings": 512,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}


@pytest.mark.parametrize(
    ("rope", "wanted", "times"),
    [
        ({}, [1.0, 0.237171, 0.05, 0.00790569, 0.0025, 0.000790569, 0.00025, 7.90569e-05], 1.138629),
        (
            {"truncate": False, "beta_fast": 8, "beta_slow": 0.5, "mscale": 0.7, "mscale_all_dim": 1.0},
            [1.0, 0.297701, 0.0629983, 0.0100735, 0.0025, 0.000790569, 0.00025, 7.90569e-05],
            0.963475,
        ),
        ({"factor": 2.5, "attention_factor": 0.7}, [1.0, 0.252982, 0.06, 0.0126491, 0.004, 0.00126491, 0.0004, 0.000126491], 0.7),
    ],
)
def test_yarn_scales_angles_as_transformers_does(rope: dict[str, Any], wanted: list[float], times: float) -> None:
    config = llama.config_of(SAID | {"rope_parameters": YARN | rope})
    np.testing.assert_allclose(rotary.frequencies(config), wanted, rtol=1e-5)
    tables = {name: t.numpy() for name, t in rotary.angles(config).items()}
    np.testing.assert_allclose(tables["cos"][3, 0], times * np.cos(3 * np.array(wanted)), rtol=1e-4)
    np.testing.assert_allclose(tables["sin"][3], np.array([[-times], [times]]) * np.sin(3 * np.array(wanted)), rtol=1e-4)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"num_hidden_layers": (1 << 31) - 1}, "num_hidden_layers is 2147483647"),
        ({"rope_factors": 5}, "the factors of angles are 5, and not 8 numbers"),
        ({"rope_factors": [1.0] * 7}, "and not 8 numbers"),
        ({"rope_factors": [1.0] * 7 + [0.0]}, r"rope_factors\[7\] is 0"),
        ({"rope_parameters": YARN | {"rope_theta": 1.0}}, "their base is 1: it must be above 1"),
        ({"rope_parameters": YARN | {"factor": None}}, "factor is None"),
    ],
)
def test_configs_that_cannot_be_are_refused_at_once(change: dict[str, Any], match: str) -> None:
    with pytest.raises(tw.UsageError, match=match):
        llama.config_of(SAID | change)


def test_a_gpt2_of_too_many_layers_is_refused_at_once() -> None:
    said = {"model_type": "gpt2", "n_layer": (1 << 31) - 1, "n_head": 1, "n_embd": 8, "vocab_size": 9, "n_positions": 9}
    with pytest.raises(tw.UsageError, match="n_layer is 2147483647"):
        gpt2_text.config_of(said)


def test_vectors_of_a_wrong_length_are_named() -> None:
    config = llama.Config()
    p = llama.init(config)
    names = {"model.embed_tokens.weight": p["embed"], "model.norm.weight": p["norm"]}
    for i, layer in enumerate(p["layers"]):
        names |= {f"model.layers.{i}.{name}": layer[ours] for ours, name in llama.NAMES.items()}
    assert llama.params_of(names, config)["layers"][0].keys() == llama.NAMES.keys()
    for name in ("self_attn.q_proj.bias", "self_attn.k_norm.weight"):
        with pytest.raises(tw.UsageError, match=r"has the shape \[1\], and the config says \[(64|16)\]"):
            llama.params_of(names | {f"model.layers.1.{name}": p["norm"][:1]}, config)
