#include "contractions.h"

void kernel(const float *restrict a, const float *restrict b, const float *restrict c, float *restrict y) {
  float *p = room((size_t)I * J * R), *ct = turned(c, K, R);
  PAR for (int i = 0; i < I; i++)
    for (int j = 0; j < J; j++)
      for (int q = 0; q < R; q++) p[((size_t)i * J + j) * R + q] = a[i * R + q] * b[j * R + q];
  product(p, ct, y, I * J, K, R);
  free(p), free(ct);
}
