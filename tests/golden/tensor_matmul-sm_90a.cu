// tensor_matmul for sm_90a
typedef unsigned short u16;
typedef unsigned int u32;

#ifdef TILEWRIGHT_HOST
#define ldmatrix_x4(...) tilewright_tensor::ldmatrix<false>(__LINE__, "ldmatrix_x4", __VA_ARGS__)
#else
static __device__ __forceinline__ void ldmatrix_x4(const void *row, u32 &r0, u32 &r1, u32 &r2, u32 &r3) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3)
        : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
#endif

#ifdef TILEWRIGHT_HOST
#define ldmatrix_x2_t(...) tilewright_tensor::ldmatrix<true>(__LINE__, "ldmatrix_x2_t", __VA_ARGS__)
#else
static __device__ __forceinline__ void ldmatrix_x2_t(const void *row, u32 &r0, u32 &r1) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
        : "=r"(r0), "=r"(r1)
        : "r"((u32)__cvta_generic_to_shared(row)) : "memory");
}
#endif

#ifdef TILEWRIGHT_HOST
#define mma_m16n8k16_bf16(...) tilewright_tensor::mma(__LINE__, "mma_m16n8k16_bf16", (tilewright_tensor::multiply<tilewright_tensor::Bf16, tilewright_tensor::Bf16, tilewright_tensor::F32, 16, 25, -133, false>), __VA_ARGS__)
#else
static __device__ __forceinline__ void mma_m16n8k16_bf16(float &c0, float &c1, float &c2, float &c3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3)
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
#endif
typedef unsigned char u8;

extern "C" __global__ void __launch_bounds__(32) tensor_matmul_p0(const u16 *__restrict__ p_A0, const u16 *__restrict__ p_B0, float *__restrict__ p_C0) {
    __shared__ __align__(16) u8 shared[2048];
    const int item = (int)blockIdx.x;
    const int thread = (int)threadIdx.x;
    u16 *const shared0 = (u16 *)(shared + 0);
    u16 *const shared1024 = (u16 *)(shared + 1024);
    int v1 = item >> 0;
    int v2 = v1 * 16;
    int v3 = item & 0;
    int v4 = v3 * 16;
    int v5 = thread & 31;
    int v6 = thread >> 5;
    int v7 = v6 >> 0;
    int v8 = v6 & 0;
    int v9 = thread + 0;
    int v10 = v9 >> 2;
    int v11 = v9 & 3;
    int v12 = v2 + v10;
    int v13 = v12 * 32;
    int v14 = v11 * 8;
    bool v15 = v9 < 64;
    int v16 = v10 & 3;
    int v17 = v11 ^ v16;
    int v18 = v10 * 32;
    int v19 = v17 * 8;
    int v20 = v18 + v19;
    int v21 = thread + 32;
    int v22 = v21 >> 2;
    int v23 = v21 & 3;
    int v24 = v2 + v22;
    int v25 = v24 * 32;
    int v26 = v23 * 8;
    bool v27 = v21 < 64;
    int v28 = v22 & 3;
    int v29 = v23 ^ v28;
    int v30 = v22 * 32;
    int v31 = v29 * 8;
    int v32 = v30 + v31;
    int v33 = v9 >> 1;
    int v34 = v9 & 1;
    int v35 = v34 * 8;
    int v36 = v33 & 1;
    int v37 = v34 ^ v36;
    int v38 = v33 * 16;
    int v39 = v37 * 8;
    int v40 = v38 + v39;
    int v41 = v21 >> 1;
    int v42 = v21 & 1;
    int v43 = v42 * 8;
    int v44 = v41 & 1;
    int v45 = v42 ^ v44;
    int v46 = v41 * 16;
    int v47 = v45 * 8;
    int v48 = v46 + v47;
    int v49 = v7 * 16;
    int v50 = v5 & 15;
    int v51 = v49 + 0;
    int v52 = v51 + v50;
    int v53 = v5 >> 4;
    int v54 = 0 + v53;
    int v55 = v52 & 3;
    int v56 = v54 ^ v55;
    int v57 = v52 * 32;
    int v58 = v56 * 8;
    int v59 = v57 + v58;
    int v60 = v8 * 16;
    int v61 = v60 + 0;
    int v62 = v5 & 7;
    int v63 = v5 >> 3;
    int v64 = v63 & 1;
    int v65 = v64 * 8;
    int v66 = 0 + v65;
    int v67 = v66 + v62;
    int v68 = v61 >> 3;
    int v69 = v67 & 1;
    int v70 = v68 ^ v69;
    int v71 = v67 * 16;
    int v72 = v70 * 8;
    int v73 = v71 + v72;
    int v74 = v60 + 8;
    int v75 = v74 >> 3;
    int v76 = v75 ^ v69;
    int v77 = v76 * 8;
    int v78 = v71 + v77;
    int v79 = 2 + v53;
    int v80 = v79 ^ v55;
    int v81 = v80 * 8;
    int v82 = v57 + v81;
    int v83 = 16 + v65;
    int v84 = v83 + v62;
    int v85 = v84 & 1;
    int v86 = v68 ^ v85;
    int v87 = v84 * 16;
    int v88 = v86 * 8;
    int v89 = v87 + v88;
    int v90 = v75 ^ v85;
    int v91 = v90 * 8;
    int v92 = v87 + v91;
    float v94_0 = 0.0f;
    float v94_1 = 0.0f;
    float v94_2 = 0.0f;
    float v94_3 = 0.0f;
    float v95_0 = 0.0f;
    float v95_1 = 0.0f;
    float v95_2 = 0.0f;
    float v95_3 = 0.0f;
    for (int j93 = 0; j93 < 32; j93 += 32) { // k
        __syncthreads();
        int v96 = v13 + j93;
        int v97 = v96 + v14;
        if (v15) {
            uint4 q98 = *(const uint4 *)(p_A0 + v97);
            u16 v99_0 = (u16)q98.x;
            u16 v99_1 = (u16)(q98.x >> 16);
            u16 v99_2 = (u16)q98.y;
            u16 v99_3 = (u16)(q98.y >> 16);
            u16 v99_4 = (u16)q98.z;
            u16 v99_5 = (u16)(q98.z >> 16);
            u16 v99_6 = (u16)q98.w;
            u16 v99_7 = (u16)(q98.w >> 16);
            *(uint4 *)(shared0 + v20) = make_uint4((u32)v99_0 | (u32)v99_1 << 16, (u32)v99_2 | (u32)v99_3 << 16, (u32)v99_4 | (u32)v99_5 << 16, (u32)v99_6 | (u32)v99_7 << 16);
        }
        int v100 = v25 + j93;
        int v101 = v100 + v26;
        if (v27) {
            uint4 q102 = *(const uint4 *)(p_A0 + v101);
            u16 v103_0 = (u16)q102.x;
            u16 v103_1 = (u16)(q102.x >> 16);
            u16 v103_2 = (u16)q102.y;
            u16 v103_3 = (u16)(q102.y >> 16);
            u16 v103_4 = (u16)q102.z;
            u16 v103_5 = (u16)(q102.z >> 16);
            u16 v103_6 = (u16)q102.w;
            u16 v103_7 = (u16)(q102.w >> 16);
            *(uint4 *)(shared0 + v32) = make_uint4((u32)v103_0 | (u32)v103_1 << 16, (u32)v103_2 | (u32)v103_3 << 16, (u32)v103_4 | (u32)v103_5 << 16, (u32)v103_6 | (u32)v103_7 << 16);
        }
        int v104 = j93 + v33;
        int v105 = v104 * 16;
        int v106 = v105 + v4;
        int v107 = v106 + v35;
        if (v15) {
            uint4 q108 = *(const uint4 *)(p_B0 + v107);
            u16 v109_0 = (u16)q108.x;
            u16 v109_1 = (u16)(q108.x >> 16);
            u16 v109_2 = (u16)q108.y;
            u16 v109_3 = (u16)(q108.y >> 16);
            u16 v109_4 = (u16)q108.z;
            u16 v109_5 = (u16)(q108.z >> 16);
            u16 v109_6 = (u16)q108.w;
            u16 v109_7 = (u16)(q108.w >> 16);
            *(uint4 *)(shared1024 + v40) = make_uint4((u32)v109_0 | (u32)v109_1 << 16, (u32)v109_2 | (u32)v109_3 << 16, (u32)v109_4 | (u32)v109_5 << 16, (u32)v109_6 | (u32)v109_7 << 16);
        }
        int v110 = j93 + v41;
        int v111 = v110 * 16;
        int v112 = v111 + v4;
        int v113 = v112 + v43;
        if (v27) {
            uint4 q114 = *(const uint4 *)(p_B0 + v113);
            u16 v115_0 = (u16)q114.x;
            u16 v115_1 = (u16)(q114.x >> 16);
            u16 v115_2 = (u16)q114.y;
            u16 v115_3 = (u16)(q114.y >> 16);
            u16 v115_4 = (u16)q114.z;
            u16 v115_5 = (u16)(q114.z >> 16);
            u16 v115_6 = (u16)q114.w;
            u16 v115_7 = (u16)(q114.w >> 16);
            *(uint4 *)(shared1024 + v48) = make_uint4((u32)v115_0 | (u32)v115_1 << 16, (u32)v115_2 | (u32)v115_3 << 16, (u32)v115_4 | (u32)v115_5 << 16, (u32)v115_6 | (u32)v115_7 << 16);
        }
        __syncthreads();
        u32 q116_0, q116_1, q116_2, q116_3;
        ldmatrix_x4(shared0 + v59, q116_0, q116_1, q116_2, q116_3);
        u32 q117_0, q117_1;
        ldmatrix_x2_t(shared1024 + v73, q117_0, q117_1);
        u32 q118_0, q118_1;
        ldmatrix_x2_t(shared1024 + v78, q118_0, q118_1);
        float v119_0 = v94_0, v119_1 = v94_1, v119_2 = v94_2, v119_3 = v94_3;
        mma_m16n8k16_bf16(v119_0, v119_1, v119_2, v119_3, q116_0, q116_1, q116_2, q116_3, q117_0, q117_1);
        float v120_0 = v95_0, v120_1 = v95_1, v120_2 = v95_2, v120_3 = v95_3;
        mma_m16n8k16_bf16(v120_0, v120_1, v120_2, v120_3, q116_0, q116_1, q116_2, q116_3, q118_0, q118_1);
        u32 q121_0, q121_1, q121_2, q121_3;
        ldmatrix_x4(shared0 + v82, q121_0, q121_1, q121_2, q121_3);
        u32 q122_0, q122_1;
        ldmatrix_x2_t(shared1024 + v89, q122_0, q122_1);
        u32 q123_0, q123_1;
        ldmatrix_x2_t(shared1024 + v92, q123_0, q123_1);
        float v124_0 = v119_0, v124_1 = v119_1, v124_2 = v119_2, v124_3 = v119_3;
        mma_m16n8k16_bf16(v124_0, v124_1, v124_2, v124_3, q121_0, q121_1, q121_2, q121_3, q122_0, q122_1);
        float v125_0 = v120_0, v125_1 = v120_1, v125_2 = v120_2, v125_3 = v120_3;
        mma_m16n8k16_bf16(v125_0, v125_1, v125_2, v125_3, q121_0, q121_1, q121_2, q121_3, q123_0, q123_1);
        v94_0 = v124_0;
        v94_1 = v124_1;
        v94_2 = v124_2;
        v94_3 = v124_3;
        v95_0 = v125_0;
        v95_1 = v125_1;
        v95_2 = v125_2;
        v95_3 = v125_3;
    }
    int v126 = v5 >> 2;
    int v127 = v5 & 3;
    int v128 = v2 + v49;
    int v129 = v128 + 0;
    int v130 = v129 + v126;
    int v131 = v127 * 2;
    int v132 = v4 + v60;
    int v133 = v132 + 0;
    int v134 = v133 + v131;
    int v135 = v130 * 16;
    int v136 = v135 + v134;
    *(float2 *)(p_C0 + v136) = make_float2(v94_0, v94_1);
    *(float2 *)(p_C0 + v136 + 128) = make_float2(v94_2, v94_3);
    int v137 = v132 + 8;
    int v138 = v137 + v131;
    int v139 = v135 + v138;
    *(float2 *)(p_C0 + v139) = make_float2(v95_0, v95_1);
    *(float2 *)(p_C0 + v139 + 128) = make_float2(v95_2, v95_3);
}
