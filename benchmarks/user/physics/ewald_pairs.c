#include <math.h>
void kernel(const float (*restrict at)[3], const float *restrict q, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) {
      float square = 1e-4f;
      for (int c = 0; c < 3; c++) {
        float d = at[i][c] - at[j][c];
        d -= floorf(d + 0.5f);
        square += d * d;
      }
      float far = sqrtf(square);
      if (i != j && far < 0.5f) total += q[j] * erfcf(4 * far) / far;
    }
    y[i] = q[i] * total;
  }
}
