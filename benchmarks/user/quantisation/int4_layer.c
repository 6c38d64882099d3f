#include <math.h>
void kernel(const float (*restrict x)[K], const float *restrict bias, const unsigned char (*restrict w)[K / 2],
            const float (*restrict scale)[K / G], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int j = 0; j < N; j++) {
    float row[K];
    for (int l = 0; l < K / 2; l++) {
      row[2 * l] = ((w[j][l] & 15) - 8) * scale[j][2 * l / G];
      row[2 * l + 1] = ((w[j][l] >> 4) - 8) * scale[j][2 * l / G];
    }
    for (int i = 0; i < M; i++) {
      float v = bias[j];
      for (int l = 0; l < K; l++) v += x[i][l] * row[l];
      y[i][j] = 0.5f * v * (1 + erff(v * 0.70710678f));
    }
  }
}
