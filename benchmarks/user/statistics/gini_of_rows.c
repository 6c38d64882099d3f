#include <math.h>
void kernel(const double (*restrict x)[N], double *restrict y) {
#pragma omp parallel for
  for (int r = 0; r < M; r++) {
    double apart = 0, total = 0;
    for (int i = 0; i < N; i++) {
      total += x[r][i];
      for (int j = 0; j < i; j++) apart += fabs(x[r][i] - x[r][j]);
    }
    y[r] = apart / (N * total);
  }
}
