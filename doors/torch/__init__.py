"""`tilewright.torch`: PyTorch's models on Tilewright's kernels.

    model = torch.compile(model, backend="tilewright")
    print(tilewright.torch.report())

The code is in `bridges/pytorch`. This folder gives it the public name: a folder `torch` at the root would hide PyTorch in a checkout."""

from tilewright.bridges.pytorch import Fallback as Fallback
from tilewright.bridges.pytorch import NodeDifference as NodeDifference
from tilewright.bridges.pytorch import TunedModel as TunedModel
from tilewright.bridges.pytorch import backend as backend
from tilewright.bridges.pytorch import compare as compare
from tilewright.bridges.pytorch import fallbacks as fallbacks
from tilewright.bridges.pytorch import report as report
from tilewright.bridges.pytorch import reset as reset
from tilewright.bridges.pytorch import tune as tune
