#include <stdlib.h>
void kernel(const unsigned char (*restrict x)[W + 2], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int across = x[i][j + 2] - x[i][j] + 2 * (x[i + 1][j + 2] - x[i + 1][j]) + x[i + 2][j + 2] - x[i + 2][j];
      int down = x[i + 2][j] - x[i][j] + 2 * (x[i + 2][j + 1] - x[i][j + 1]) + x[i + 2][j + 2] - x[i][j + 2];
      y[i][j] = abs(across) + abs(down) > 200 ? 255 : 0;
    }
}
