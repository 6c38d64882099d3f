"""What options make of a kernel: other kernels, by functions that know nothing of loops. `options` says when, and what follows."""
