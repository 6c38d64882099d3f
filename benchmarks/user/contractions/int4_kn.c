#include "contractions.h"

void kernel(const float *restrict x, const uint8_t *restrict w, const float *restrict s, const uint8_t *restrict z,
            float *restrict y) {
  float *d = room(K * N);
  PAR for (int l = 0; l < K; l++)
    for (int j = 0; j < N; j++)
      d[l * N + j] = (float)(((int)w[l / 2 * N + j] >> (l % 2 * 4) & 15) - (int)z[l / G * N + j]) * s[l / G * N + j];
  product(x, d, y, M, N, K);
  free(d);
}
