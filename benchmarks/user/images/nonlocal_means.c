#include <math.h>
void kernel(const float (*restrict x)[W + 12], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float top[W], full[W];
    for (int j = 0; j < W; j++) top[j] = full[j] = 0;
    for (int u = 0; u < 11; u++)
      for (int v = 0; v < 11; v++)
#pragma omp simd
        for (int j = 0; j < W; j++) {
          float d = 0;
          for (int p = 0; p < 3; p++)
            for (int q = 0; q < 3; q++) {
              float e = x[i + u + p][j + v + q] - x[i + 5 + p][j + 5 + q];
              d += e * e;
            }
          d = expf(-0.3f * d);
          top[j] += d * x[i + u + 1][j + v + 1], full[j] += d;
        }
    for (int j = 0; j < W; j++) y[i][j] = top[j] / full[j];
  }
}
