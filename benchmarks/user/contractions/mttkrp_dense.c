#include "contractions.h"

void kernel(const float *restrict t, const float *restrict b, const float *restrict c, float *restrict y) {
  float *h = room(J * K * R);
  for (int j = 0; j < J; j++)
    for (int k = 0; k < K; k++)
      for (int q = 0; q < R; q++) h[(j * K + k) * R + q] = b[j * R + q] * c[k * R + q];
  product(t, h, y, I, R, J * K);
  free(h);
}
