#include <string.h>
void kernel(const float (*restrict patch)[P][P], const float *restrict weight, const int *restrict y, const int *restrict x,
            float (*restrict total)[W], float (*restrict weights)[W]) {
  memset(total, 0, sizeof(float) * H * W), memset(weights, 0, sizeof(float) * H * W);
  for (int i = 0; i < N; i++)
    for (int a = 0; a < P; a++) {
      float *restrict t = &total[y[i] + a][x[i]], *restrict s = &weights[y[i] + a][x[i]];
      for (int b = 0; b < P; b++) t[b] += patch[i][a][b] * weight[i], s[b] += weight[i];
    }
}
