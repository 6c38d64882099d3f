"""The loop Program, its operations, how it is built and written down, and how kernels are called."""
