"""One kernel at several sizes: a size that is known at the call, in buckets (`tune_buckets`), or one schedule for a list of shapes
(`tune_shapes`)."""

from .buckets import tune_buckets
from .ranges import Bucket, ShapesResult, SizeLoss, SizeRange, WeightedShape, parse_range, parse_shapes
from .shared_schedule import tune_shapes

__all__ = [
    "Bucket",
    "ShapesResult",
    "SizeLoss",
    "SizeRange",
    "WeightedShape",
    "parse_range",
    "parse_shapes",
    "tune_buckets",
    "tune_shapes",
]
