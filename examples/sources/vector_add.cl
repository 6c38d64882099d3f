// Sums of `work` elements a work item, a group apart, so that neighbours read neighbours.
__kernel void vector_add(__global const float *a, __global const float *b, __global float *c, const int n) {
    const int first = get_group_id(0) * block_size_x * work + get_local_id(0);
#pragma unroll
    for (int k = 0; k < work; k++) {
        const int i = first + k * block_size_x;
        if (i < n) c[i] = a[i] + b[i];
    }
}
