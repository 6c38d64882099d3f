// matmul for opencl-cpu
#pragma OPENCL FP_CONTRACT OFF

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void matmul_p0(__global const float *restrict p_A, __global const float *restrict p_B, __global float *restrict p_C) {
    __local uchar shared[1280] __attribute__((aligned(64)));
    if (!p_A) return;  // without buffers: compiled ahead
    const int item = (int)get_group_id(0);
    __local uchar *const scratch = shared + 0;
    __local float *const scratch0 = (__local float *)(scratch + 0);
    int v1 = item * 16;
    for (int j2 = 0; j2 < 20; j2 += 1) { // pack
        int v3 = j2 * 32;
        int v4 = v3 + v1;
        int v5 = j2 * 16;
        float8 v6 = vload8(0, (p_B + v1) + v3);
        *(__local float8 *)(scratch0 + v5) = v6;
        float8 v7 = vload8(0, (p_B + v1) + v3 + 8);
        *(__local float8 *)(scratch0 + v5 + 8) = v7;
    }
    for (int j8 = 0; j8 < 12; j8 += 6) { // m
        int v9 = j8 * 20;
        float8 v11 = (float8)(0.0f);
        float8 v12 = (float8)(0.0f);
        float8 v13 = (float8)(0.0f);
        float8 v14 = (float8)(0.0f);
        float8 v15 = (float8)(0.0f);
        float8 v16 = (float8)(0.0f);
        float8 v17 = (float8)(0.0f);
        float8 v18 = (float8)(0.0f);
        float8 v19 = (float8)(0.0f);
        float8 v20 = (float8)(0.0f);
        float8 v21 = (float8)(0.0f);
        float8 v22 = (float8)(0.0f);
        for (int j10 = 0; j10 < 20; j10 += 1) { // k
            int v23 = v9 + j10;
            int v24 = j10 * 16;
            float8 v25 = *(__local const float8 *)(scratch0 + v24);
            float8 v26 = *(__local const float8 *)(scratch0 + v24 + 8);
            float v27 = ((__global const volatile float *)(p_A + v9))[j10];
            float v28 = ((__global const volatile float *)(p_A + v9))[j10 + 20];
            float v29 = ((__global const volatile float *)(p_A + v9))[j10 + 40];
            float v30 = ((__global const volatile float *)(p_A + v9))[j10 + 60];
            float v31 = ((__global const volatile float *)(p_A + v9))[j10 + 80];
            float v32 = ((__global const volatile float *)(p_A + v9))[j10 + 100];
            float8 v33 = fma((float8)(v27), v25, v11);
            float8 v34 = fma((float8)(v27), v26, v12);
            float8 v35 = fma((float8)(v28), v25, v13);
            float8 v36 = fma((float8)(v28), v26, v14);
            float8 v37 = fma((float8)(v29), v25, v15);
            float8 v38 = fma((float8)(v29), v26, v16);
            float8 v39 = fma((float8)(v30), v25, v17);
            float8 v40 = fma((float8)(v30), v26, v18);
            float8 v41 = fma((float8)(v31), v25, v19);
            float8 v42 = fma((float8)(v31), v26, v20);
            float8 v43 = fma((float8)(v32), v25, v21);
            float8 v44 = fma((float8)(v32), v26, v22);
            v11 = v33;
            v12 = v34;
            v13 = v35;
            v14 = v36;
            v15 = v37;
            v16 = v38;
            v17 = v39;
            v18 = v40;
            v19 = v41;
            v20 = v42;
            v21 = v43;
            v22 = v44;
        }
        int v45 = j8 * 32;
        int v46 = v45 + v1;
        vstore8(v11, 0, (p_C + v1) + v45);
        vstore8(v12, 0, (p_C + v1) + v45 + 8);
        vstore8(v13, 0, (p_C + v1) + v45 + 32);
        vstore8(v14, 0, (p_C + v1) + v45 + 40);
        vstore8(v15, 0, (p_C + v1) + v45 + 64);
        vstore8(v16, 0, (p_C + v1) + v45 + 72);
        vstore8(v17, 0, (p_C + v1) + v45 + 96);
        vstore8(v18, 0, (p_C + v1) + v45 + 104);
        vstore8(v19, 0, (p_C + v1) + v45 + 128);
        vstore8(v20, 0, (p_C + v1) + v45 + 136);
        vstore8(v21, 0, (p_C + v1) + v45 + 160);
        vstore8(v22, 0, (p_C + v1) + v45 + 168);
    }
}
