"""`tilewright.onnx`: ONNX models on Tilewright's kernels.

    model = tilewright.onnx.load("model.onnx")
    y = model(x)

The code is in `bridges/onnx`. This folder gives it the public name: a folder `onnx` at the root would hide the onnx package in a checkout."""

from tilewright.bridges.onnx import OnnxModel as OnnxModel
from tilewright.bridges.onnx import OnnxValue as OnnxValue
from tilewright.bridges.onnx import TunedModel as TunedModel
from tilewright.bridges.onnx import export as export
from tilewright.bridges.onnx import load as load
from tilewright.bridges.onnx import tune as tune
