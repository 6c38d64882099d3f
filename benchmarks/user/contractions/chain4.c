#include "contractions.h"

void kernel(const float *restrict a, const float *restrict b, const float *restrict c, const float *restrict d, float *restrict y) {
  float *t = room(I * K), *u = room(I * L);
  product(a, b, t, I, K, J), product(t, c, u, I, L, K), product(u, d, y, I, M, L);
  free(t), free(u);
}
