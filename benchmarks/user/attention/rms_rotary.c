#include <math.h>
void kernel(const float (*restrict x)[D], const float *restrict g, const float (*restrict co)[D / 2],
            const float (*restrict si)[D / 2], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    float square = 0;
    for (int j = 0; j < D; j++) square += x[i][j] * x[i][j];
    float scale = 1 / sqrtf(square / D + 1e-5f);
    for (int j = 0; j < D / 2; j++) {
      float a = x[i][j] * scale * g[j], b = x[i][j + D / 2] * scale * g[j + D / 2];
      y[i][j] = a * co[i][j] - b * si[i][j];
      y[i][j + D / 2] = a * si[i][j] + b * co[i][j];
    }
  }
}
