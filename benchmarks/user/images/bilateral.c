#include <math.h>
void kernel(const float (*restrict x)[W + 4], const float (*restrict near)[5], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float c = x[i + 2][j + 2], total = 0, mixed = 0;
      for (int p = 0; p < 5; p++)
        for (int q = 0; q < 5; q++) {
          float v = x[i + p][j + q], d = v - c, weight = near[p][q] * expf(d * d * -12.5f);
          total += weight;
          mixed += weight * v;
        }
      y[i][j] = mixed / (total + 1e-6f);
    }
}
