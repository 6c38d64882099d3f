"""What a step of a random program can be: a file for each kind of operation, each with its rows of the table."""

from . import elementwise as elementwise
from . import indexed as indexed
from . import products as products
from . import statistics as statistics
from . import views as views
