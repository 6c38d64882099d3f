#include "contractions.h"

void kernel(const float *restrict x, const int8_t *restrict w, const float *restrict s, float *restrict y) {
  float *d = room(K * N);
  PAR for (int l = 0; l < K; l++)
    for (int j = 0; j < N; j++) d[l * N + j] = (float)w[l * N + j] * s[l / G * N + j];
  product(x, d, y, M, N, K);
  free(d);
}
