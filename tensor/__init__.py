"""A lazy tensor library whose expressions become kernels by fusion, scheduled from the cache at JIT time."""

import sys as _sys

from .. import cache as _cache  # noqa: F401
from .. import devices as _devices  # noqa: F401
from .. import ir as _ir
from .. import opts as _opts  # noqa: F401
from .. import plan as _plan  # noqa: F401
from .. import search as _search  # noqa: F401
from .. import targets as _targets  # noqa: F401
from . import debug as debug
from . import sparse as sparse
from .capture.decorator import jit as jit
from .frontends import nn as nn
from .frontends import optim as optim
from .frontends.complex_tensor import ComplexTensor as ComplexTensor
from .gradients.grad import checkpoint as checkpoint
from .gradients.grad import grad as grad
from .gradients.grad import jvp as jvp
from .gradients.grad import stop_gradient as stop_gradient
from .gradients.grad import value_and_grad as value_and_grad
from .gradients.grad import vjp as vjp
from .gradients.vmap import vmap as vmap
from .graph.promotion import set_default_float as set_default_float
from .graph.symbolic_sizes import Var as Var
from .handle import compute as compute
from .loops import cond as cond
from .loops import fori_loop as fori_loop
from .loops import scan as scan
from .loops import while_loop as while_loop
from .operations import operation as operation
from .operations import register_gradient as register_gradient
from .running.buffers import memory_cap as memory_cap
from .running.observers import report as report
from .tensor import Tensor as Tensor
from .trees import tree_map as tree_map

_here = "tilewright.Tensor(data)"
_sys.modules[__name__].__class__ = _ir.errors.NoFunction
