"""One form of all ways of writing a kernel: its rules, the text that caches hash, and the one writing of kernels that come from tensors."""

from .canonical_text import Canonical, canonical, loose
from .rule_list import RULES, applied, normalise
from .tidy_kernel import tidy, tidy_as_named

__all__ = ["RULES", "Canonical", "applied", "canonical", "loose", "normalise", "tidy", "tidy_as_named"]
