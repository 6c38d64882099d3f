"""`torch.compile(model, backend="tilewright")`: PyTorch's models on our kernels. The public name is `tilewright.torch`."""

from ..model_tuning import TunedModel as TunedModel
from .backend import backend as backend
from .compare import NodeDifference as NodeDifference
from .compare import compare as compare
from .exporting import export as export
from .graph import Fallback as Fallback
from .report import fallbacks as fallbacks
from .report import report as report
from .report import reset as reset
from .tuning import tune as tune
