/* As much of cuBLAS as benchmarks/gpu_cublas.py calls, on the memory of the processor: column-major products of float32 and bfloat16. */
#include <stdint.h>
#include <string.h>

enum { FLOAT = 0, BFLOAT16 = 14, COMPUTE_32F = 68 };

static float get(const void* p, long i, int kind) {
    if (kind == FLOAT) return ((const float*)p)[i];
    uint32_t bits = (uint32_t)((const uint16_t*)p)[i] << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

static void put(void* p, long i, int kind, float x) {
    uint32_t bits;
    memcpy(&bits, &x, 4);
    if (kind == FLOAT) ((float*)p)[i] = x;
    else ((uint16_t*)p)[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

int cublasCreate_v2(void** handle) { *handle = handle; return 0; }

int cublasSetMathMode(void* handle, int mode) { return handle == 0 || mode != 0; }

int cublasGemmEx(void* handle, int ta, int tb, int m, int n, int k, const float* alpha, const void* a, int at, int lda, const void* b, int bt,
                 int ldb, const float* beta, void* c, int ct, int ldc, int compute, int algorithm) {
    if (handle == 0 || ta || tb || compute != COMPUTE_32F || algorithm != -1 || at != bt || bt != ct || (at != FLOAT && at != BFLOAT16)) return 15;
    if (lda < m || ldb < k || ldc < m || *alpha != 1.0f || *beta != 0.0f) return 7;
    for (int j = 0; j < n; j++)
        for (int i = 0; i < m; i++) {
            float sum = 0;
            for (int l = 0; l < k; l++) sum += get(a, i + (long)l * lda, at) * get(b, l + (long)j * ldb, bt);
            put(c, i + (long)j * ldc, ct, sum);
        }
    return 0;
}
