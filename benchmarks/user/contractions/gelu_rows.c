#include "contractions.h"

void kernel(const float *restrict a, const float *restrict w, float *restrict y) {
  float *d = room(M * K);
  PAR for (int i = 0; i < M * K; i++) d[i] = a[i] * 0.5f * (1.0f + erff(a[i] * 0.70710678f));
  product(d, w, y, M, N, K);
  free(d);
}
