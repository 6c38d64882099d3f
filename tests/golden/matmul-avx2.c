// matmul for avx2
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef float f32;
typedef f32 f32x8 __attribute__((vector_size(32)));
typedef f32 f32x8u __attribute__((vector_size(32), aligned(4), may_alias));
typedef f32 f32x8a __attribute__((vector_size(32), aligned(32), may_alias));

static inline f32x8 splat_f32x8(f32 x) {
    return (f32x8){x, x, x, x, x, x, x, x};
}

static inline f32x8 fma_f32x8(f32x8 a, f32x8 b, f32x8 c) {
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif !defined(__clang__) || __has_builtin(__builtin_ia32_vfmaddps256)
    return __builtin_ia32_vfmaddps256(a, b, c);
#else
    f32x8 out = a;
    for (int i = 0; i < 8; i += 1) out[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return out;
#endif
}

static __attribute__((noinline)) void matmul_p0_items(const f32 *restrict p_A, const f32 *restrict p_B, f32 *restrict p_C, u8 *restrict scratch, i64 lo, i64 hi) {
    f32 *const scratch0 = (f32 *)(scratch + 0);
    for (i64 item = lo; item < hi; item += 1) {
        i64 v1 = item * 16;
        for (i64 j2 = 0; j2 < 20; j2 += 1) { // pack
            i64 v3 = j2 * 32;
            i64 v4 = v3 + v1;
            i64 v5 = j2 * 16;
            f32x8 v6 = *(const f32x8u *)(p_B + v4);
            *(f32x8a *)(scratch0 + v5) = v6;
            f32x8 v7 = *(const f32x8u *)(p_B + v4 + 8);
            *(f32x8a *)(scratch0 + v5 + 8) = v7;
        }
        for (i64 j8 = 0; j8 < 12; j8 += 6) { // m
            i64 v9 = j8 * 20;
            f32x8 v11 = splat_f32x8(0.0f);
            f32x8 v12 = splat_f32x8(0.0f);
            f32x8 v13 = splat_f32x8(0.0f);
            f32x8 v14 = splat_f32x8(0.0f);
            f32x8 v15 = splat_f32x8(0.0f);
            f32x8 v16 = splat_f32x8(0.0f);
            f32x8 v17 = splat_f32x8(0.0f);
            f32x8 v18 = splat_f32x8(0.0f);
            f32x8 v19 = splat_f32x8(0.0f);
            f32x8 v20 = splat_f32x8(0.0f);
            f32x8 v21 = splat_f32x8(0.0f);
            f32x8 v22 = splat_f32x8(0.0f);
            for (i64 j10 = 0; j10 < 20; j10 += 1) { // k
                i64 v23 = v9 + j10;
                i64 v24 = j10 * 16;
                f32x8 v25 = *(const f32x8a *)(scratch0 + v24);
                f32x8 v26 = *(const f32x8a *)(scratch0 + v24 + 8);
                f32 v27 = p_A[v23];
                f32 v28 = p_A[v23 + 20];
                f32 v29 = p_A[v23 + 40];
                f32 v30 = p_A[v23 + 60];
                f32 v31 = p_A[v23 + 80];
                f32 v32 = p_A[v23 + 100];
                f32x8 v33 = fma_f32x8(splat_f32x8(v27), v25, v11);
                f32x8 v34 = fma_f32x8(splat_f32x8(v27), v26, v12);
                f32x8 v35 = fma_f32x8(splat_f32x8(v28), v25, v13);
                f32x8 v36 = fma_f32x8(splat_f32x8(v28), v26, v14);
                f32x8 v37 = fma_f32x8(splat_f32x8(v29), v25, v15);
                f32x8 v38 = fma_f32x8(splat_f32x8(v29), v26, v16);
                f32x8 v39 = fma_f32x8(splat_f32x8(v30), v25, v17);
                f32x8 v40 = fma_f32x8(splat_f32x8(v30), v26, v18);
                f32x8 v41 = fma_f32x8(splat_f32x8(v31), v25, v19);
                f32x8 v42 = fma_f32x8(splat_f32x8(v31), v26, v20);
                f32x8 v43 = fma_f32x8(splat_f32x8(v32), v25, v21);
                f32x8 v44 = fma_f32x8(splat_f32x8(v32), v26, v22);
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
            i64 v45 = j8 * 32;
            i64 v46 = v45 + v1;
            *(f32x8u *)(p_C + v46) = v11;
            *(f32x8u *)(p_C + v46 + 8) = v12;
            *(f32x8u *)(p_C + v46 + 32) = v13;
            *(f32x8u *)(p_C + v46 + 40) = v14;
            *(f32x8u *)(p_C + v46 + 64) = v15;
            *(f32x8u *)(p_C + v46 + 72) = v16;
            *(f32x8u *)(p_C + v46 + 96) = v17;
            *(f32x8u *)(p_C + v46 + 104) = v18;
            *(f32x8u *)(p_C + v46 + 128) = v19;
            *(f32x8u *)(p_C + v46 + 136) = v20;
            *(f32x8u *)(p_C + v46 + 160) = v21;
            *(f32x8u *)(p_C + v46 + 168) = v22;
        }
    }
}

void matmul_p0(void **bufs, i64 *vars, void *scratch, i64 lo, i64 hi) {
    matmul_p0_items(bufs[0], bufs[1], bufs[2], scratch, lo, hi);
}
