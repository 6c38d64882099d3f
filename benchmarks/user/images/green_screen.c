#include <stdbool.h>
void kernel(const unsigned char (*restrict x)[H][W], bool (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i][j] = x[1][i][j] > 90 && 4 * x[1][i][j] > 5 * x[0][i][j] && 4 * x[1][i][j] > 5 * x[2][i][j];
}
