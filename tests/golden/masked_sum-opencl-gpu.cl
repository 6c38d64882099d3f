// masked_sum for opencl-gpu
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void masked_sum_p0(__global const float *restrict p_x, __global const float *restrict p_y, __global uchar *restrict work, long s_n) {
    const int item = (int)get_group_id(0);
    const int s_n_int = (int)s_n;
    __global float *const work0 = (__global float *)(work + 0);
    int v1 = item * 8;
    int8 v2 = (int8)(0, 1, 2, 3, 4, 5, 6, 7);
    int8 v3 = (int8)(v1) + v2;
    int8 v4 = v3 < (int8)(s_n_int);
    float8 v5 = all(v4) ? vload8(0, p_x + v1) : (float8)((v4.s0 != 0) ? (p_x + v1)[0] : 0.0f, (v4.s1 != 0) ? (p_x + v1)[1] : 0.0f, (v4.s2 != 0) ? (p_x + v1)[2] : 0.0f, (v4.s3 != 0) ? (p_x + v1)[3] : 0.0f, (v4.s4 != 0) ? (p_x + v1)[4] : 0.0f, (v4.s5 != 0) ? (p_x + v1)[5] : 0.0f, (v4.s6 != 0) ? (p_x + v1)[6] : 0.0f, (v4.s7 != 0) ? (p_x + v1)[7] : 0.0f);
    float v6 = v5.s0;
    float v7 = v5.s1;
    float v8 = v6 + v7;
    float v9 = v5.s2;
    float v10 = v8 + v9;
    float v11 = v5.s3;
    float v12 = v10 + v11;
    float v13 = v5.s4;
    float v14 = v12 + v13;
    float v15 = v5.s5;
    float v16 = v14 + v15;
    float v17 = v5.s6;
    float v18 = v16 + v17;
    float v19 = v5.s7;
    float v20 = v18 + v19;
    work0[item] = v20;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void masked_sum_p1(__global const float *restrict p_x, __global float *restrict p_y, __global uchar *restrict work, long s_n) {
    const int item = (int)get_group_id(0);
    const int s_n_int = (int)s_n;
    __global float *const work0 = (__global float *)(work + 0);
    float v2 = 0.0f;
    for (int j1 = 0; j1 < 4; j1 += 1) { // i
        float v3 = work0[j1];
        float v4 = v2 + v3;
        v2 = v4;
    }
    bool v5 = 0 < s_n_int;
    if (v5) {
        p_y[0] = v2;
    }
}
