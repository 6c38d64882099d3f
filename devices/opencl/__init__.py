"""OpenCL devices of any vendor."""
