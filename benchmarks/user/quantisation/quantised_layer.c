#include <math.h>
void kernel(const signed char (*restrict x)[K], const signed char (*restrict w)[K],
            const int *restrict bias, const float *restrict scale,
            signed char (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int total = bias[j];
      for (int k = 0; k < K; k++) total += x[i][k] * w[j][k];
      float scaled = rintf(total * (scale[j] * 0.0005f)) + 3;
      y[i][j] = scaled < -128 ? -128 : scaled > 127 ? 127 : scaled;
    }
}
