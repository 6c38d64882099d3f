"""ATen's operators as functions of tensors, a small function each in one table."""

from . import elementwise as elementwise
from . import indexing as indexing
from . import movement as movement
from . import prims as prims
from . import products as products
from . import reductions as reductions
from .table import OPERATORS as OPERATORS
from .table import Operator as Operator
