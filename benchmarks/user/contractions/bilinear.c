#include "contractions.h"

void kernel(const float *restrict x, const float *restrict a, const float *restrict w, float *restrict y) {
  float *t = room((size_t)B * J * K);
  product(x, a, t, B, J * K, I);
  PAR for (int b = 0; b < B; b++) {
    memset(y + b * K, 0, sizeof(float) * K);
    for (int j = 0; j < J; j++)
      for (int k = 0; k < K; k++) y[b * K + k] += w[b * J + j] * t[((size_t)b * J + j) * K + k];
  }
  free(t);
}
