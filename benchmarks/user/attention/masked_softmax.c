#include <math.h>
void kernel(const float (*restrict x)[N], const unsigned char (*restrict seen)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float top = -INFINITY, total = 0;
    for (int j = 0; j < N; j++) {
      y[i][j] = seen[i][j] ? x[i][j] * (1 / 0.8f) : -1e9f;
      top = y[i][j] > top ? y[i][j] : top;
    }
    for (int j = 0; j < N; j++) {
      y[i][j] = expf(y[i][j] - top);
      total += y[i][j];
    }
    for (int j = 0; j < N; j++) y[i][j] /= total;
  }
}
