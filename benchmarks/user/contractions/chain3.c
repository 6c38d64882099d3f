#include "contractions.h"

void kernel(const float *restrict a, const float *restrict b, const float *restrict c, float *restrict y) {
  float *t = room(I * K);
  product(a, b, t, I, K, J), product(t, c, y, I, L, K);
  free(t);
}
