"""Functions of tensors in users' files, `my.py:function`: what kernels they become."""
