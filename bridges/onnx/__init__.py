"""ONNX models on our kernels. The public name is `tilewright.onnx`."""

from .model import OnnxModel as OnnxModel
from .model import OnnxValue as OnnxValue
from .model import load as load
