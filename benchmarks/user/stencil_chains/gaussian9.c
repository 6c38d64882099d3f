#include "chains.h"

static float rows[H + 8][W] ALIGNED;

void kernel(const float (*restrict a)[W + 8], float (*restrict out)[W]) {
#pragma omp parallel for
  for (int y = 0; y < H + 8; y++)
    for (int x = 0; x < W; x++)
      rows[y][x] = a[y][x] * 0.02f +
                   a[y][x + 1] * 0.06f +
                   a[y][x + 2] * 0.12f +
                   a[y][x + 3] * 0.18f +
                   a[y][x + 4] * 0.24f +
                   a[y][x + 5] * 0.18f +
                   a[y][x + 6] * 0.12f +
                   a[y][x + 7] * 0.06f +
                   a[y][x + 8] * 0.02f;
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      out[y][x] = rows[y][x] * 0.02f +
                  rows[y + 1][x] * 0.06f +
                  rows[y + 2][x] * 0.12f +
                  rows[y + 3][x] * 0.18f +
                  rows[y + 4][x] * 0.24f +
                  rows[y + 5][x] * 0.18f +
                  rows[y + 6][x] * 0.12f +
                  rows[y + 7][x] * 0.06f +
                  rows[y + 8][x] * 0.02f;
}
