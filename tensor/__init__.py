"""A lazy tensor library whose expressions become kernels by fusion, scheduled from the cache at JIT time."""

from . import nn as nn
from . import optim as optim
from .account import memory_cap as memory_cap
from .compute import compute as compute
from .grad import checkpoint as checkpoint
from .grad import grad as grad
from .grad import jvp as jvp
from .grad import register_gradient as register_gradient
from .grad import stop_gradient as stop_gradient
from .grad import value_and_grad as value_and_grad
from .grad import vjp as vjp
from .jit import jit as jit
from .symbols import Var as Var
from .tensor import Tensor as Tensor
from .trees import tree_map as tree_map
from .vmap import vmap as vmap
