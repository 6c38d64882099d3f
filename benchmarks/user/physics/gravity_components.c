#include <math.h>
void kernel(const float (*restrict p)[3], const float *restrict m, float (*restrict a)[3]) {
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float x = 0, y = 0, z = 0;
    for (int j = 0; j < N; j++) {
      float dx = p[j][0] - p[i][0], dy = p[j][1] - p[i][1], dz = p[j][2] - p[i][2];
      float r = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + 0.01f);
      float pull = m[j] * r * r * r;
      x += dx * pull;
      y += dy * pull;
      z += dz * pull;
    }
    a[i][0] = x;
    a[i][1] = y;
    a[i][2] = z;
  }
}
