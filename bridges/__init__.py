"""Doors to other frameworks: their programs run on our kernels. Each is a public name of the package, such as `tilewright.torch`."""
