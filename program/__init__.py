"""The loop Program, its operations, how it is built and written down, and how kernels are called."""

from .. import ir as _ir  # noqa: F401
from .. import targets as _targets  # noqa: F401
