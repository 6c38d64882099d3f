"""Running graphs: memory of tensors, realising now, what is being captured, who watches calls, assignment."""
