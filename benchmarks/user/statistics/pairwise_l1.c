#include <math.h>
void kernel(const float (*restrict a)[D], const float (*restrict b)[D], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      float total = 0;
      for (int k = 0; k < D; k++) total += fabsf(a[i][k] - b[j][k]);
      y[i][j] = total;
    }
}
