"""What to try first: seed schedules, parameterised templates, and the cost models that rank candidates."""

from .model import estimate
from .seeds import seeds
from .templates import Template, templates

__all__ = ["Template", "estimate", "seeds", "templates"]
