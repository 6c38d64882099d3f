#include "chains.h"

static float rows[H + 4][W] ALIGNED;

void kernel(const float (*restrict a)[W + 4], float (*restrict out)[W]) {
#pragma omp parallel for
  for (int y = 0; y < H + 4; y++)
    for (int x = 0; x < W; x++)
      rows[y][x] = a[y][x] * 0.0625f + a[y][x + 1] * 0.25f + a[y][x + 2] * 0.375f + a[y][x + 3] * 0.25f + a[y][x + 4] * 0.0625f;
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      out[y][x] = rows[y][x] * 0.0625f + rows[y + 1][x] * 0.25f + rows[y + 2][x] * 0.375f + rows[y + 3][x] * 0.25f + rows[y + 4][x] * 0.0625f;
}
