"""Programs in languages of C's family: C, OpenCL C, CUDA C++."""
