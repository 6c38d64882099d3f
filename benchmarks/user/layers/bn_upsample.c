#include <math.h>
void kernel(const float (*restrict x)[H][W], const float *restrict g, const float *restrict b, const float *restrict mean,
            const float *restrict var, float (*restrict y)[2 * H][2 * W]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++) {
    float scale = g[l] / sqrtf(var[l] + 1e-5f), shift = b[l] - mean[l] * scale;
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) {
        float v = x[l][i][j] * scale + shift;
        v = v > 0.1f * v ? v : 0.1f * v;
        y[l][2 * i][2 * j] = y[l][2 * i][2 * j + 1] = y[l][2 * i + 1][2 * j] = y[l][2 * i + 1][2 * j + 1] = v;
      }
  }
}
