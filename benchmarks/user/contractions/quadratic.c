#include "contractions.h"

void kernel(const float *restrict x, const float *restrict a, const float *restrict w, float *restrict y) {
  float *t = room((size_t)B * J);
  product(x, a, t, B, J, I);
  PAR for (int b = 0; b < B; b++) {
    float s = 0;
    for (int j = 0; j < J; j++) s += t[b * J + j] * w[b * J + j];
    y[b] = s;
  }
  free(t);
}
