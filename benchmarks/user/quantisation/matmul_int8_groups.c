#include <string.h>
void kernel(const float (*restrict x)[K], const signed char (*restrict w)[N],
            const float (*restrict scale)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    memset(y[i], 0, sizeof y[i]);
    for (int k = 0; k < K; k++)
      for (int j = 0; j < N; j++) y[i][j] += x[i][k] * (w[k][j] * scale[k / G][j]);
  }
}
