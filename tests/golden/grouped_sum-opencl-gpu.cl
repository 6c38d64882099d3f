// grouped_sum for opencl-gpu
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(48, 1, 1))) void grouped_sum_p0(__global const float *restrict p_x, __global float *restrict p_y) {
    __local uchar shared[256] __attribute__((aligned(64)));
    const int item = (int)get_group_id(0);
    const int thread = (int)get_local_id(0);
    __local float *const shared64 = (__local float *)(shared + 64);
    int v1 = item * 48;
    int v2 = v1 + thread;
    int v3 = v2 * 4;
    float4 v4 = *(__global const float4 *)(p_x + v3);
    float v5 = v4.s0;
    float v6 = v4.s1;
    float v7 = v5 + v6;
    float v8 = v4.s2;
    float v9 = v4.s3;
    float v10 = v8 + v9;
    float v11 = v7 + v10;
    shared64[thread] = v11;
    barrier(CLK_LOCAL_MEM_FENCE);
    bool v12 = thread < 1;
    if (v12) {
        float v14 = 0.0f;
        for (int j13 = 0; j13 < 48; j13 += 1) { // thread
            float v15 = shared64[j13];
            float v16 = v14 + v15;
            v14 = v16;
        }
        p_y[item] = v14;
    }
}
