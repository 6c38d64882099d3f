#include "../bf16.h"

static void token(const bf16 *restrict rest, const bf16 *restrict p, const bf16 *restrict q, float a, float b, bf16 *restrict y) {
  for (int o = 0; o < D; o++) y[o] = narrow(wide(rest[o]) + a * wide(p[o]) + b * wide(q[o]));
}
void kernel(const bf16 (*restrict rest)[D], const bf16 (*restrict given)[D], const int (*restrict at)[2],
            const float (*restrict share)[2], bf16 (*restrict y)[D]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int p = at[i][0], q = at[i][1];
    float a = p < 0 ? 0 : share[i][0], b = q < 0 ? 0 : share[i][1], over = a + b > 0 ? 1 / (a + b) : 0;
    token(rest[i], given[p < 0 ? 0 : p], given[q < 0 ? 0 : q], a * over, b * over, y[i]);
  }
}
