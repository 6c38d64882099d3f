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
    int v4 = 0 * 128;
    int v5 = v4 + v3;
    int v6 = v2 + v3;
    bool v7 = thread < 16;
    cp_async16(shared0 + v6, p_x + v5, v7);
    cp_async_commit();
    int v8 = 1 % 3;
    int v9 = v8 * 128;
    int v10 = 1 * 128;
    int v11 = v10 + v3;
    int v12 = v9 + v3;
    cp_async16(shared0 + v12, p_x + v11, v7);
    cp_async_commit();
    int v13 = thread + 1;
    int v14 = v13 & 31;
    int v15 = v14 * 4;
    float v17 = 0.0f;
    for (int j16 = 0; j16 < 6; j16 += 1) { // k
        cp_async_wait<1>();
        __syncthreads();
        int v18 = j16 + 2;
        bool v19 = v18 < 6;
        int v20 = v18 % 3;
        int v21 = v20 * 128;
        int v22 = v18 * 128;
        int v23 = v22 + v3;
        int v24 = v21 + v3;
        if (v19) {
            cp_async16(shared0 + v24, p_x + v23, v7);
        }
        cp_async_commit();
        int v25 = j16 % 3;
        int v26 = v25 * 128;
        int v27 = v26 + v15;
        float4 q28 = *(const float4 *)(shared0 + v27);
        float v29 = v17 + q28.x;
        float v30 = v29 + q28.y;
        float v31 = v30 + q28.z;
        float v32 = v31 + q28.w;
        v17 = v32;
    }
    p_y[thread] = v17;
}
