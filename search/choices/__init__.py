"""Searching among the choices of templates: points, moves between them, and a model of their times."""
