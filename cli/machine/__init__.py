"""Commands about what is here: devices, kernels, strategies."""
