#include "../bf16.h"

static void row(const bf16 *restrict a, const bf16 *restrict b, const bf16 *restrict c, const bf16 *restrict d, bf16 *restrict y) {
  for (int k = 0; k < W; k++)
    y[k] = narrow(0.125f * (wide(a[2 * k]) + wide(a[2 * k + 1]) + wide(b[2 * k]) + wide(b[2 * k + 1]) +
                            wide(c[2 * k]) + wide(c[2 * k + 1]) + wide(d[2 * k]) + wide(d[2 * k + 1])));
}
void kernel(const bf16 (*restrict x)[2 * H][2 * W], bf16 (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++) row(x[2 * i][2 * j], x[2 * i][2 * j + 1], x[2 * i + 1][2 * j], x[2 * i + 1][2 * j + 1], y[i][j]);
}
