"""From a graph to kernels: pulling, names, and the list of calls that computes a graph."""
