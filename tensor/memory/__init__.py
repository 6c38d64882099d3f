"""Memory of tensors: buffers on every device, pooled, counted and capped."""
