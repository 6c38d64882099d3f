#include <math.h>
void kernel(const float *restrict x, const float *restrict y, const float *restrict z, const float *restrict q,
            float *restrict v) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) {
      float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      total += q[j] / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
    }
    v[i] = total;
  }
}
