#include "contractions.h"

void kernel(const float *restrict g, const float *restrict a, const float *restrict b, const float *restrict c, float *restrict y) {
  float *t = room(I * Q * R), *u = room((size_t)I * J * R), *ct = turned(c, K, R);
  product(a, g, t, I, Q * R, P);
  PAR for (int i = 0; i < I; i++)
    for (int j = 0; j < J; j++) {
      float *o = u + ((size_t)i * J + j) * R;
      memset(o, 0, sizeof(float) * R);
      for (int q = 0; q < Q; q++)
        for (int r = 0; r < R; r++) o[r] += b[j * Q + q] * t[(i * Q + q) * R + r];
    }
  product(u, ct, y, I * J, K, R);
  free(t), free(u), free(ct);
}
