#include "contractions.h"

void kernel(const float *restrict a, const float *restrict w, float *restrict y) {
  float *d = room(K * N), *q = room(N);
  memset(q, 0, sizeof(float) * N);
  for (int l = 0; l < K; l++)
    for (int j = 0; j < N; j++) q[j] += w[l * N + j] * w[l * N + j];
  for (int j = 0; j < N; j++) q[j] = 1 / sqrtf(q[j]);
  PAR for (int l = 0; l < K; l++)
    for (int j = 0; j < N; j++) d[l * N + j] = w[l * N + j] * q[j];
  product(a, d, y, M, N, K);
  free(d), free(q);
}
