#include "contractions.h"

void kernel(const float *restrict x, const int8_t *restrict w, const float *restrict s, float *restrict y) {
  float *d = room(K * N);
  PAR for (int j0 = 0; j0 < N; j0 += 16)
    for (int l = 0; l < K; l++)
      for (int j = j0; j < j0 + 16; j++) d[l * N + j] = (float)w[j * K + l] * s[j * (K / G) + l / G];
  product(x, d, y, M, N, K);
  free(d);
}
