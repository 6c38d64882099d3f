"""The faces of tensors: NumPy's functions and its protocols, complex numbers, einops, layers, optimisers, names that others use."""
