#include <math.h>
void kernel(const signed char (*restrict a)[C], const signed char (*restrict b)[C], const float *restrict p,
            const float *restrict q, signed char (*restrict y)[C]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) {
      int v = lrintf(a[i][j] * p[j] + b[i][j] * q[j]);
      y[i][j] = v < -128 ? -128 : v > 127 ? 127 : v;
    }
}
