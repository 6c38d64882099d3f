#include <math.h>
void kernel(const float (*restrict w)[N], const float (*restrict g)[N], const float *restrict row, const float *restrict col,
            float (*restrict new_w)[N], float *restrict new_row, float *restrict new_col) {
  float mean = 0, size = 0, heavy = 0, total[N] = {0};
  for (int i = 0; i < M; i++) {
    float sum = 0;
    for (int j = 0; j < N; j++) {
      sum += g[i][j] * g[i][j];
      total[j] += g[i][j] * g[i][j];
      heavy += w[i][j] * w[i][j];
    }
    new_row[i] = 0.99f * row[i] + 0.01f / N * sum;
    mean += new_row[i] / M;
  }
  for (int j = 0; j < N; j++) new_col[j] = 0.99f * col[j] + 0.01f / M * total[j];
#pragma omp parallel for reduction(+ : size)
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) size += g[i][j] * g[i][j] / (new_row[i] * new_col[j] / mean + 1e-30f);
  float rate = 0.01f * fmaxf(sqrtf(heavy / (M * N)), 1e-3f) / fmaxf(sqrtf(size / (M * N)), 1);
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) new_w[i][j] = w[i][j] - rate * g[i][j] / sqrtf(new_row[i] * new_col[j] / mean + 1e-30f);
}
