"""A lazy tensor library whose expressions become kernels by fusion, scheduled from the cache at JIT time."""

from .tensor import Tensor as Tensor
