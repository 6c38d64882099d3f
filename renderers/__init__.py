"""Renderers: Programs as text for a compiler, chosen by the target's language."""

from .. import ir as _ir  # noqa: F401
from .. import targets as _targets  # noqa: F401
from .base import Renderer, Source, languages, register, render

__all__ = ["Renderer", "Source", "languages", "register", "render"]
