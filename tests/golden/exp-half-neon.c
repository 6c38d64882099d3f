// elementwise for neon
#ifndef __has_builtin
#define __has_builtin(x) 0
#endif
typedef __INT64_TYPE__ i64;
typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef u16 u16x4 __attribute__((vector_size(8)));
typedef u16 u16x4u __attribute__((vector_size(8), aligned(2), may_alias));
typedef float f32;
typedef f32 f32x4 __attribute__((vector_size(16)));
typedef __UINT32_TYPE__ u32;
typedef u32 u32x4 __attribute__((vector_size(16)));
typedef __INT32_TYPE__ i32;
typedef i32 i32x4 __attribute__((vector_size(16)));

static inline u32x4 select_u32x4(i32x4 on, u32x4 a, u32x4 b) {
    return (u32x4)((on & (i32x4)a) | (~on & (i32x4)b));
}

static inline u32x4 splat_u32x4(u32 x) {
    return (u32x4){x, x, x, x};
}

static inline f32x4 widen_float16_x4(u16x4 x) {
    u32x4 bits = __builtin_convertvector(x, u32x4);
    u32x4 magnitude = bits & 0x7fffu;
    u32x4 sign = (bits ^ magnitude) << 16;
    u32x4 low = magnitude << 13;
    u32x4 normal = low + 0x38000000u;
    // with one more in the exponent, a subnormal's value is what is past the first power of two; of a normal number that is more
    f32x4 past = (f32x4)(low + 0x38800000u) - 0x1p-14f;
    u32x4 small = (u32x4)past;
    u32x4 finite = (select_u32x4(small < normal, small, normal));
    u32x4 special = (select_u32x4(magnitude >= 0x7c00u, splat_u32x4(0x7f800000u), splat_u32x4(0u)));
    return (f32x4)(finite | special | sign);
}

static inline f32x4 splat_f32x4(f32 x) {
    return (f32x4){x, x, x, x};
}

static inline f32x4 select_f32x4(i32x4 on, f32x4 a, f32x4 b) {
    return (f32x4)((on & (i32x4)a) | (~on & (i32x4)b));
}

static inline f32x4 min_or_b_f32x4(f32x4 a, f32x4 b) {
    return select_f32x4(a < b, a, b);
}

static inline f32x4 max_or_b_f32x4(f32x4 a, f32x4 b) {
    return select_f32x4(a > b, a, b);
}

static inline f32x4 fma_f32x4(f32x4 a, f32x4 b, f32x4 c) {
#if __has_builtin(__builtin_elementwise_fma)
    return __builtin_elementwise_fma(a, b, c);
#elif !defined(__clang__) || __has_builtin(__builtin_aarch64_fmav4sf)
    return __builtin_aarch64_fmav4sf(a, b, c);
#else
    f32x4 out = a;
    for (int i = 0; i < 4; i += 1) out[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return out;
#endif
}

static inline u16x4 narrow_bfloat16_x4(f32x4 x) {
    u32x4 bits = (u32x4)x;
    u32x4 carried = bits + 0x7fffu + ((bits >> 16) & 1u);
    u32x4 out = (select_u32x4(x != x, splat_u32x4(0xffffffffu), carried)) >> 16;
    return __builtin_convertvector(out, u16x4);
}

static __attribute__((noinline)) void elementwise_p0_items(const u16 *restrict p_x0, u16 *restrict p_y, i64 lo, i64 hi) {
    for (i64 item = lo; item < hi; item += 1) {
        i64 v1 = item * 4;
        u16x4 v2 = *(const u16x4u *)(p_x0 + v1);
        f32x4 v3 = widen_float16_x4(v2);
        i32x4 v4 = splat_f32x4(89.0f) < v3;
        f32x4 v5 = min_or_b_f32x4(splat_f32x4(89.0f), v3);
        i32x4 v6 = v5 < splat_f32x4(-176.0f);
        f32x4 v7 = max_or_b_f32x4(splat_f32x4(-176.0f), v5);
        f32x4 v8 = fma_f32x4(v7, splat_f32x4(0x1.715476p+0f), splat_f32x4(0x1.8001fcp+23f));
        f32x4 v9 = v8 - splat_f32x4(0x1.8001fcp+23f);
        f32x4 v10 = fma_f32x4(v9, splat_f32x4(-0.693359375f), v7);
        f32x4 v11 = fma_f32x4(v9, splat_f32x4(0x1.bd0106p-13f), v10);
        u32x4 v12 = (u32x4)v8;
        u32x4 v13 = v12 >> splat_u32x4(1u);
        u32x4 v14 = v13 << splat_u32x4(23u);
        f32x4 v15 = (f32x4)v14;
        u32x4 v16 = v12 - v13;
        u32x4 v17 = v16 << splat_u32x4(23u);
        f32x4 v18 = (f32x4)v17;
        f32x4 v19 = fma_f32x4(splat_f32x4(0x1.55549p-3f), v11, splat_f32x4(0x1.fffffcp-2f));
        f32x4 v20 = fma_f32x4(splat_f32x4(0x1.123a6ap-7f), v11, splat_f32x4(0x1.5558f4p-5f));
        f32x4 v21 = v11 * v11;
        f32x4 v22 = fma_f32x4(splat_f32x4(0x1.6a2352p-10f), v21, v20);
        f32x4 v23 = fma_f32x4(v22, v21, v19);
        f32x4 v24 = fma_f32x4(v23, v11, splat_f32x4(1.0f));
        f32x4 v25 = fma_f32x4(v24, v11, splat_f32x4(1.0f));
        f32x4 v26 = v25 * v15;
        f32x4 v27 = v26 * v18;
        u16x4 v28 = narrow_bfloat16_x4(v27);
        *(u16x4u *)(p_y + v1) = v28;
    }
}

void elementwise_p0(void **bufs, i64 *vars, void *scratch, i64 lo, i64 hi) {
    elementwise_p0_items(bufs[0], bufs[1], lo, hi);
}
