"""One kernel at many shapes: few schedules, and a tree of sizes that says where each is used (`tune_sizes`)."""

from .tuned import ShapesResult, SizeLoss, SizeRange, WeightedShape, parse_ranges, parse_shapes, shapes_in, tune_sizes

__all__ = ["ShapesResult", "SizeLoss", "SizeRange", "WeightedShape", "parse_ranges", "parse_shapes", "shapes_in", "tune_sizes"]
