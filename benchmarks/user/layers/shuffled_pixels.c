#include <math.h>
void kernel(const float (*restrict x)[H][W], unsigned char (*restrict y)[H * R][W * R]) {
#pragma omp parallel for collapse(2)
  for (int l = 0; l < C; l++)
    for (int i = 0; i < H; i++)
      for (int p = 0; p < R; p++)
        for (int j = 0; j < W; j++)
          for (int q = 0; q < R; q++) {
            int v = lrintf(x[(l * R + p) * R + q][i][j] * 64 + 128);
            y[l][i * R + p][j * R + q] = v < 0 ? 0 : v > 255 ? 255 : v;
          }
}
