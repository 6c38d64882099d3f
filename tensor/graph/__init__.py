"""Graphs of tensor operations: nodes, index maps, primitives, types of results, and small graphs computed by NumPy."""
