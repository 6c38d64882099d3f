"""Writes the ONNX models that onnx_vs.py and export_vs_jit.py play: transformers' networks with random weights, by torch.onnx.

pip install torch transformers onnx onnxscript onnxruntime
python benchmarks/onnx_models.py models/ [NAME …]

`resnet50` is written a second time as `resnet50_qdq`: in bytes between conversions, with a scale for each channel of weights."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
)
from transformers.models.whisper.modeling_whisper import WhisperEncoder


class OneResult(torch.nn.Module):
    """A network as a function of one tensor to one tensor."""

    def __init__(self, network: Any, result: str, **options: Any) -> None:
        super().__init__()
        self.network, self.result, self.options = network, result, options

    def forward(self, x: Any) -> Any:
        """The result of this name."""
        return getattr(self.network(x, **self.options), self.result)


def networks() -> dict[str, Any]:
    """(network, input) by name, made when asked for."""
    image, words = torch.randn(1, 3, 224, 224), torch.randint(0, 1000, (1, 64))
    whisper = WhisperConfig(d_model=384, encoder_layers=2, encoder_attention_heads=6)
    return {
        "bert": lambda: (OneResult(BertModel(BertConfig(num_hidden_layers=2, vocab_size=1000)), "last_hidden_state"), words),
        "gpt2": lambda: (OneResult(GPT2LMHeadModel(GPT2Config(n_layer=2, vocab_size=1000)), "logits", use_cache=False), words),
        "vit": lambda: (OneResult(ViTForImageClassification(ViTConfig(num_hidden_layers=2)), "logits"), image),
        "resnet50": lambda: (OneResult(ResNetForImageClassification(ResNetConfig()), "logits"), image),
        "mobilenet": lambda: (OneResult(MobileNetV2ForImageClassification(MobileNetV2Config()), "logits"), image),
        "whisper": lambda: (OneResult(WhisperEncoder(whisper), "last_hidden_state"), torch.randn(1, 80, 3000)),
    }


class Images(CalibrationDataReader):  # type: ignore[misc]
    """Made-up images, by which scales are chosen."""

    def __init__(self) -> None:
        r = np.random.default_rng(0)
        self.left = [r.standard_normal((1, 3, 224, 224)).astype(np.float32) for _ in range(4)]

    def get_next(self) -> Any:
        """Inputs of a call, None at the end."""
        return {"x": self.left.pop()} if self.left else None


def quantised(source: Path, target: Path) -> None:
    """A model in bytes between conversions."""
    ready = target.with_suffix(".ready")
    quant_pre_process(source, ready, skip_symbolic_shape=True)
    quantize_static(ready, target, Images(), per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
    ready.unlink()


def main() -> int:
    """Write the models that are named, or all."""
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    folder, chosen = Path(sys.argv[1]), sys.argv[2:]
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    for name, make in networks().items():
        if not chosen or name in chosen:
            torch.manual_seed(0)
            network, x = make()
            torch.onnx.export(network.eval(), (x,), str(folder / f"{name}.onnx"), dynamo=True, external_data=False, verbose=False)
            if name == "resnet50":
                quantised(folder / "resnet50.onnx", folder / "resnet50_qdq.onnx")
    return 0


if __name__ == "__main__":
    sys.exit(main())
