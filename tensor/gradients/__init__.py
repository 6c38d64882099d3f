"""Derivatives, graph to graph: reverse and forward mode, checkpoints, and functions of batches."""
