"""Functions of nodes that only compose primitives (`tensor.graph.nodes`). `tensor.Tensor`, `tilewright.xp` and the gradients are made of them."""
