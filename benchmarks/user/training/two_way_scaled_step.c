#include <math.h>
void kernel(const float (*restrict w)[M], const float (*restrict g)[M], float (*restrict y)[M]) {
  float row[N], column[M], whole = 0, size = 0;
  for (int j = 0; j < M; j++) column[j] = 0;
  for (int i = 0; i < N; i++) {
    float s = 0;
    for (int j = 0; j < M; j++) {
      float v = g[i][j] * g[i][j] + 1e-30f;
      s += v, column[j] += v;
    }
    row[i] = s, whole += s;
  }
  for (int i = 0; i < N; i++) row[i] = 1 / sqrtf(row[i] / whole);
  for (int j = 0; j < M; j++) column[j] = 1 / sqrtf(column[j] * (1.0f / N));
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) {
      float u = g[i][j] * row[i] * column[j];
      size += u * u;
    }
  float limit = size > N * M ? 1 / sqrtf(size / (N * M)) : 1;
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < M; j++) y[i][j] = w[i][j] - 0.01f * g[i][j] * row[i] * column[j] * limit;
}
