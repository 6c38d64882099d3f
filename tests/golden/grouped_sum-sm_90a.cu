// grouped_sum for sm_90a
typedef unsigned char u8;

extern "C" __global__ void __launch_bounds__(48) grouped_sum_p0(const float *__restrict__ p_x, float *__restrict__ p_y) {
    __shared__ __align__(16) u8 shared[256];
    const int item = (int)blockIdx.x;
    const int thread = (int)threadIdx.x;
    float *const shared64 = (float *)(shared + 64);
    int v1 = item * 48;
    int v2 = v1 + thread;
    int v3 = v2 * 4;
    float4 q4 = *(const float4 *)(p_x + v3);
    float v5 = q4.x + q4.y;
    float v6 = q4.z + q4.w;
    float v7 = v5 + v6;
    float v8 = __shfl_xor_sync(threadIdx.x < 32 ? 0xffffffffu : 0xffffu, v7, 8);
    float v9 = v7 + v8;
    float v10 = __shfl_xor_sync(threadIdx.x < 32 ? 0xffffffffu : 0xffffu, v9, 4);
    float v11 = v9 + v10;
    float v12 = __shfl_xor_sync(threadIdx.x < 32 ? 0xffffffffu : 0xffffu, v11, 2);
    float v13 = v11 + v12;
    float v14 = __shfl_xor_sync(threadIdx.x < 32 ? 0xffffffffu : 0xffffu, v13, 1);
    float v15 = v13 + v14;
    shared64[thread] = v15;
    __syncthreads();
    bool v16 = thread < 1;
    if (v16) {
        float v18 = 0.0f;
        for (int j17 = 0; j17 < 48; j17 += 16) { // warp
            float v19 = shared64[j17];
            float v20 = v18 + v19;
            v18 = v20;
        }
        p_y[item] = v18;
    }
}
