// masked_sum for sm_90a
typedef unsigned char u8;
typedef long long i64;

extern "C" __global__ void __launch_bounds__(1) masked_sum_p0(const float *__restrict__ p_x, const float *__restrict__ p_y, u8 *__restrict__ work, i64 s_n) {
    const int item = (int)blockIdx.x;
    const int s_n_int = (int)s_n;
    float *const work0 = (float *)(work + 0);
    int v1 = item * 8;
    int v2_0 = 0;
    int v2_1 = 1;
    int v2_2 = 2;
    int v2_3 = 3;
    int v2_4 = 4;
    int v2_5 = 5;
    int v2_6 = 6;
    int v2_7 = 7;
    int v3_0 = v1 + v2_0;
    int v3_1 = v1 + v2_1;
    int v3_2 = v1 + v2_2;
    int v3_3 = v1 + v2_3;
    int v3_4 = v1 + v2_4;
    int v3_5 = v1 + v2_5;
    int v3_6 = v1 + v2_6;
    int v3_7 = v1 + v2_7;
    bool v4_0 = v3_0 < s_n_int;
    bool v4_1 = v3_1 < s_n_int;
    bool v4_2 = v3_2 < s_n_int;
    bool v4_3 = v3_3 < s_n_int;
    bool v4_4 = v3_4 < s_n_int;
    bool v4_5 = v3_5 < s_n_int;
    bool v4_6 = v3_6 < s_n_int;
    bool v4_7 = v3_7 < s_n_int;
    float v5_0 = v4_0 ? p_x[v1] : 0.0f;
    float v5_1 = v4_1 ? p_x[v1 + 1] : 0.0f;
    float v5_2 = v4_2 ? p_x[v1 + 2] : 0.0f;
    float v5_3 = v4_3 ? p_x[v1 + 3] : 0.0f;
    float v5_4 = v4_4 ? p_x[v1 + 4] : 0.0f;
    float v5_5 = v4_5 ? p_x[v1 + 5] : 0.0f;
    float v5_6 = v4_6 ? p_x[v1 + 6] : 0.0f;
    float v5_7 = v4_7 ? p_x[v1 + 7] : 0.0f;
    float v6 = v5_0 + v5_1;
    float v7 = v6 + v5_2;
    float v8 = v7 + v5_3;
    float v9 = v8 + v5_4;
    float v10 = v9 + v5_5;
    float v11 = v10 + v5_6;
    float v12 = v11 + v5_7;
    work0[item] = v12;
}

extern "C" __global__ void __launch_bounds__(1) masked_sum_p1(const float *__restrict__ p_x, float *__restrict__ p_y, u8 *__restrict__ work, i64 s_n) {
    const int item = (int)blockIdx.x;
    const int s_n_int = (int)s_n;
    float *const work0 = (float *)(work + 0);
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
