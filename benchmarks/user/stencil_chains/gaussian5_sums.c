#include "chains.h"

static float rows[H + 4][W] ALIGNED;

void kernel(const float (*restrict a)[W + 4], const float *restrict g, float (*restrict out)[W]) {
#pragma omp parallel for
  for (int y = 0; y < H + 4; y++)
    for (int x = 0; x < W; x++)
      rows[y][x] = a[y][x] * g[0] + a[y][x + 1] * g[1] + a[y][x + 2] * g[2] + a[y][x + 3] * g[3] + a[y][x + 4] * g[4];
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      out[y][x] = rows[y][x] * g[0] + rows[y + 1][x] * g[1] + rows[y + 2][x] * g[2] + rows[y + 3][x] * g[3] + rows[y + 4][x] * g[4];
}
