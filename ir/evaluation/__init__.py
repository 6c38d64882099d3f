"""The reference: kernels evaluated in float64, as the integer twin, with an error bound, or for what is certain on special values."""
