// ring for sm_80
typedef unsigned int u32;

static __device__ __forceinline__ void cp_async16(void *to, const void *from, bool on) {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(on ? 16 : 0) : "memory");
#else
    tilewright_host::copy(__LINE__, to, from, 16, on);
#endif
}

static __device__ __forceinline__ void cp_async_commit() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.commit_group;" ::: "memory");
#else
    tilewright_host::commit(__LINE__);
#endif
}

template <int N>
static __device__ __forceinline__ void cp_async_wait() {
#if defined(__CUDA_ARCH__)
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
#else
    tilewright_host::wait(__LINE__, N);
#endif
}
typedef unsigned char u8;

extern "C" __global__ void __launch_bounds__(32) ring_p0(const float *__restrict__ p_x, float *__restrict__ p_y) {
    __shared__ __align__(16) u8 shared[1536];
    const int item = (int)blockIdx.x;
    const int thread = (int)threadIdx.x;
    float *const shared0 = (float *)(shared + 0);
    int v1 = 0 % 3;
    int v2 = v1 * 128;
    int v3 = thread * 4;
    int v4 = 0 + v3;
    int v5 = v2 + v3;
    bool v6 = thread < 16;
    cp_async16(shared0 + v5, p_x + v4, v6);
    cp_async_commit();
    int v7 = 1 % 3;
    int v8 = v7 * 128;
    int v9 = 128 + v3;
    int v10 = v8 + v3;
    cp_async16(shared0 + v10, p_x + v9, v6);
    cp_async_commit();
    int v11 = thread + 1;
    int v12 = v11 & 31;
    int v13 = v12 * 4;
    float v15 = 0.0f;
    for (int j14 = 0; j14 < 6; j14 += 1) { // k
        cp_async_wait<1>();
        __syncthreads();
        int v16 = j14 + 2;
        bool v17 = v16 < 6;
        int v18 = v16 % 3;
        int v19 = v18 * 128;
        int v20 = v16 * 128;
        int v21 = v20 + v3;
        int v22 = v19 + v3;
        if (v17) {
            cp_async16(shared0 + v22, p_x + v21, v6);
        }
        cp_async_commit();
        int v23 = j14 % 3;
        int v24 = v23 * 128;
        int v25 = v24 + v13;
        float4 q26 = *(const float4 *)(shared0 + v25);
        float v27 = v15 + q26.x;
        float v28 = v27 + q26.y;
        float v29 = v28 + q26.z;
        float v30 = v29 + q26.w;
        v15 = v30;
    }
    p_y[thread] = v15;
}
