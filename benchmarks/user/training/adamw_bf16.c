#include <math.h>
#include "../bf16.h"

void kernel(const float *restrict w, const float *restrict m, const float *restrict v, const bf16 *restrict g,
            float *restrict new_w, float *restrict new_m, float *restrict new_v, bf16 *restrict half) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float d = wide(g[i]), m2 = 0.9f * m[i] + 0.1f * d, v2 = 0.999f * v[i] + 0.001f * d * d;
    float w2 = w[i] * (1 - 1e-3f * 0.01f) - 1e-3f * (m2 * 1.1f) / (sqrtf(v2 * 1.01f) + 1e-8f);
    new_w[i] = w2;
    new_m[i] = m2;
    new_v[i] = v2;
    half[i] = narrow(w2);
  }
}
