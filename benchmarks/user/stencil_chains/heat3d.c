#include "chains.h"

static float once[D + 2][H + 2][W + 2] ALIGNED;

void kernel(const float (*restrict a)[H + 4][W + 4], float (*restrict out)[H][W]) {
#pragma omp parallel for
  for (int z = 0; z < D + 2; z++)
    for (int y = 0; y < H + 2; y++)
      for (int x = 0; x < W + 2; x++)
        once[z][y][x] = a[z + 1][y + 1][x + 1] * 0.4f +
            (a[z][y + 1][x + 1] + a[z + 2][y + 1][x + 1] + a[z + 1][y][x + 1] + a[z + 1][y + 2][x + 1] + a[z + 1][y + 1][x] + a[z + 1][y + 1][x + 2]) * 0.1f;
#pragma omp parallel for
  for (int z = 0; z < D; z++)
    for (int y = 0; y < H; y++)
      for (int x = 0; x < W; x++)
        out[z][y][x] = once[z + 1][y + 1][x + 1] * 0.4f +
            (once[z][y + 1][x + 1] + once[z + 2][y + 1][x + 1] + once[z + 1][y][x + 1] + once[z + 1][y + 2][x + 1] + once[z + 1][y + 1][x] + once[z + 1][y + 1][x + 2]) * 0.1f;
}
