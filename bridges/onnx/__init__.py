"""ONNX models on our kernels. The public name is `tilewright.onnx`."""

from ..model_tuning import TunedModel as TunedModel
from .exporting import export as export
from .model import OnnxModel as OnnxModel
from .model import OnnxValue as OnnxValue
from .model import load as load
from .tuning import tune as tune
