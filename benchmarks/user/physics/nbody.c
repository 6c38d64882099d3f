#include <math.h>
void kernel(const float *restrict x, const float *restrict y, const float *restrict z,
            const float *restrict m,
            float *restrict ax, float *restrict ay, float *restrict az) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float sx = 0, sy = 0, sz = 0;
    for (int j = 0; j < N; j++) {
      float dx = x[j] - x[i], dy = y[j] - y[i], dz = z[j] - z[i];
      float square = dx * dx + dy * dy + dz * dz + 0.01f;
      float pull = m[j] / (square * sqrtf(square));
      sx += pull * dx;
      sy += pull * dy;
      sz += pull * dz;
    }
    ax[i] = sx;
    ay[i] = sy;
    az[i] = sz;
  }
}
