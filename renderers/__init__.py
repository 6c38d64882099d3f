"""Renderers: Programs as text for a compiler, chosen by the target's language."""

from .base import Renderer, Source, languages, register, render

__all__ = ["Renderer", "Source", "languages", "register", "render"]
