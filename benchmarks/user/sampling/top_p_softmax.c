#include <math.h>
void kernel(const float (*restrict x)[N], const float *restrict least, float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float top = x[i][0], whole = 0, some = 0;
    for (int j = 1; j < N; j++) top = x[i][j] > top ? x[i][j] : top;
    for (int j = 0; j < N; j++) {
      y[i][j] = expf((x[i][j] - top) * (1 / 0.7f));
      whole += y[i][j];
    }
    float end = least[i] * whole;
    for (int j = 0; j < N; j++) {
      y[i][j] = y[i][j] < end ? 0 : y[i][j];
      some += y[i][j];
    }
    for (int j = 0; j < N; j++) y[i][j] /= some;
  }
}
