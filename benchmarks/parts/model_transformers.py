"""Models of the package transformers with random weights: for `models_vs.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from parts.model_operations import ModelCase, normal, whole


def _model(name: str, build: Callable[[Any], Any], given: Callable[[], torch.Tensor]) -> ModelCase:
    def make() -> tuple[Callable[..., Any], tuple[Any, ...]]:
        import transformers

        return build(transformers).eval(), (given(),)

    return ModelCase(name, "transformers", make)


def _llama(t: Any) -> Any:
    config = t.LlamaConfig(
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=12,
        num_attention_heads=12,
        num_key_value_heads=4,
        vocab_size=8192,
        use_cache=False,
    )
    return t.LlamaForCausalLM(config)


PICTURE: Callable[[], torch.Tensor] = lambda: normal(1, 3, 224, 224)  # noqa: E731
TRANSFORMERS = [
    _model("GPT-2", lambda t: t.GPT2LMHeadModel(t.GPT2Config(use_cache=False)), whole(0, 50257, 1, 128)),
    _model("BERT base", lambda t: t.BertModel(t.BertConfig()), whole(0, 30522, 1, 128)),
    _model("ViT-B/16", lambda t: t.ViTForImageClassification(t.ViTConfig()), PICTURE),
    _model("ResNet-50", lambda t: t.ResNetForImageClassification(t.ResNetConfig()), PICTURE),
    _model("MobileNetV2", lambda t: t.MobileNetV2ForImageClassification(t.MobileNetV2Config()), PICTURE),
    _model("Llama of 110 M", _llama, whole(0, 8192, 1, 128)),
    _model(
        "Whisper tiny's encoder",
        lambda t: t.WhisperModel(t.WhisperConfig(d_model=384, encoder_layers=4, encoder_attention_heads=6, encoder_ffn_dim=1536)).encoder,
        lambda: normal(1, 80, 3000),
    ),
]
"""All of them, batch 1."""
