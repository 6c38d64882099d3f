// masked_sum for cascadelake
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef float f32;
typedef __INT32_TYPE__ i32;
typedef i32 i32x8 __attribute__((vector_size(32)));

static inline i32x8 splat_i32x8(i32 x) {
    return (i32x8){x, x, x, x, x, x, x, x};
}
typedef f32 f32x8 __attribute__((vector_size(32)));

static inline f32x8 load_masked_f32x8(const f32 *p, i32x8 mask) {
    typedef int whole __attribute__((vector_size(32)));
    return (f32x8)__builtin_ia32_loaddqusi256_mask((const void *)p, (whole){0}, __builtin_ia32_cvtd2mask256((whole)mask));
}
typedef _Bool bool;

static __attribute__((noinline)) void masked_sum_p0_items(const f32 *restrict p_x, const f32 *restrict p_y, u8 *restrict work, i64 s_n, i64 lo, i64 hi) {
    f32 *const work0 = (f32 *)(work + 0);
    for (i64 item = lo; item < hi; item += 1) {
        i64 v1 = item * 8;
        i32x8 v2 = (i32x8){0, 1, 2, 3, 4, 5, 6, 7};
        i32x8 v3 = splat_i32x8((i32)v1) + v2;
        i32x8 v4 = v3 < splat_i32x8((i32)s_n);
        f32x8 v5 = load_masked_f32x8(p_x + v1, v4);
        f32 v6 = v5[0];
        f32 v7 = v5[1];
        f32 v8 = v6 + v7;
        f32 v9 = v5[2];
        f32 v10 = v8 + v9;
        f32 v11 = v5[3];
        f32 v12 = v10 + v11;
        f32 v13 = v5[4];
        f32 v14 = v12 + v13;
        f32 v15 = v5[5];
        f32 v16 = v14 + v15;
        f32 v17 = v5[6];
        f32 v18 = v16 + v17;
        f32 v19 = v5[7];
        f32 v20 = v18 + v19;
        work0[item] = v20;
    }
}

void masked_sum_p0(void **bufs, i64 *vars, void *scratch, i64 lo, i64 hi) {
    masked_sum_p0_items(bufs[0], bufs[1], bufs[2], vars[0], lo, hi);
}

static __attribute__((noinline)) void masked_sum_p1_items(const f32 *restrict p_x, f32 *restrict p_y, u8 *restrict work, i64 s_n, i64 lo, i64 hi) {
    f32 *const work0 = (f32 *)(work + 0);
    for (i64 item = lo; item < hi; item += 1) {
        f32 v2 = 0.0f;
        for (i64 j1 = 0; j1 < 4; j1 += 1) { // i
            f32 v3 = work0[j1];
            f32 v4 = v2 + v3;
            v2 = v4;
        }
        bool v5 = 0 < s_n;
        if (v5) {
            p_y[0] = v2;
        }
    }
}

void masked_sum_p1(void **bufs, i64 *vars, void *scratch, i64 lo, i64 hi) {
    masked_sum_p1_items(bufs[0], bufs[1], bufs[2], vars[0], lo, hi);
}
