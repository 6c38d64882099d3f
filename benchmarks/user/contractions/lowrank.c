#include "contractions.h"

void kernel(const float *restrict a, const float *restrict b, const float *restrict c, float *restrict y) {
  float *t = room(I * R);
  product(a, b, t, I, R, J), product(t, c, y, I, K, R);
  free(t);
}
