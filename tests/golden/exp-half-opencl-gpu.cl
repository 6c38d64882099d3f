// elementwise for opencl-gpu
#pragma OPENCL FP_CONTRACT OFF
static float4 widen_half4(ushort4 x) { return vload_half4(0, (__private const half *)&x); }

static ushort4 narrow_bfloat16_x4(float4 x) {
    uint4 bits = as_uint4(x);
    uint4 carried = bits + 0x7fffu + ((bits >> 16) & 1u);
    uint4 out = ((x != x) ? (uint4)(0xffffffffu) : carried) >> 16;
    return convert_ushort4(out);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void elementwise_p0(__global const ushort *restrict p_x0, __global ushort *restrict p_y) {
    const int item = (int)get_group_id(0);
    int v1 = item * 4;
    ushort4 v2 = vload4(0, p_x0 + v1);
    float4 v3 = widen_half4(v2);
    int4 v4 = (float4)(89.0f) < v3;
    float4 v5 = v4 ? (float4)(89.0f) : v3;
    int4 v6 = v5 < (float4)(-176.0f);
    float4 v7 = v6 ? (float4)(-176.0f) : v5;
    float4 v8 = fma(v7, (float4)(0x1.715476p+0f), (float4)(0x1.8001fcp+23f));
    float4 v9 = v8 - (float4)(0x1.8001fcp+23f);
    float4 v10 = fma(v9, (float4)(-0.693359375f), v7);
    float4 v11 = fma(v9, (float4)(0x1.bd0106p-13f), v10);
    uint4 v12 = as_uint4(v8);
    uint4 v13 = v12 >> (uint4)(1u);
    uint4 v14 = v13 << (uint4)(23u);
    float4 v15 = as_float4(v14);
    uint4 v16 = v12 - v13;
    uint4 v17 = v16 << (uint4)(23u);
    float4 v18 = as_float4(v17);
    float4 v19 = fma((float4)(0x1.55549p-3f), v11, (float4)(0x1.fffffcp-2f));
    float4 v20 = fma((float4)(0x1.123a6ap-7f), v11, (float4)(0x1.5558f4p-5f));
    float4 v21 = v11 * v11;
    float4 v22 = fma((float4)(0x1.6a2352p-10f), v21, v20);
    float4 v23 = fma(v22, v21, v19);
    float4 v24 = fma(v23, v11, (float4)(1.0f));
    float4 v25 = fma(v24, v11, (float4)(1.0f));
    float4 v26 = v25 * v15;
    float4 v27 = v26 * v18;
    ushort4 v28 = narrow_bfloat16_x4(v27);
    vstore4(v28, 0, p_y + v1);
}
