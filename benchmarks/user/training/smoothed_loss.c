#include <math.h>
void kernel(const float (*restrict x)[N], const int *restrict label, float *restrict loss, float (*restrict dx)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float top = -INFINITY, total = 0, sum = 0;
    for (int j = 0; j < N; j++) {
      top = x[i][j] > top ? x[i][j] : top;
      sum += x[i][j];
    }
    for (int j = 0; j < N; j++) total += dx[i][j] = expf(x[i][j] - top);
    loss[i] = top + logf(total) - 0.9f * x[i][label[i]] - 0.1f * sum / N;
    for (int j = 0; j < N; j++) dx[i][j] = dx[i][j] / total - 0.1f / N;
    dx[i][label[i]] -= 0.9f;
  }
}
