"""The table of operators, filled by the files of this folder."""

from . import contrib as contrib
from . import contrib_quantised as contrib_quantised
from . import control_flow as control_flow
from . import elementwise as elementwise
from . import indexing as indexing
from . import movement as movement
from . import products as products
from . import quantisation as quantisation
from . import random_numbers as random_numbers
from . import recurrent as recurrent
from . import reductions as reductions
from . import resampling as resampling
from . import signals as signals
from . import windows as windows
from .table import KNOWN as KNOWN
from .table import OPERATORS as OPERATORS
