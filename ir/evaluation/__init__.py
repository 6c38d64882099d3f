"""What a kernel computes: its values in float64 with the error that a float type may make of them, and in other arithmetics."""

from .reference import SLACK, cut_axes, evaluate, evaluate_error, evaluate_kinds, evaluate_points

__all__ = ["SLACK", "cut_axes", "evaluate", "evaluate_error", "evaluate_kinds", "evaluate_points"]
