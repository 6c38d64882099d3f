#include <math.h>
void kernel(const unsigned short (*restrict x)[W], const float (*restrict c)[H][W], unsigned short (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float v = x[i][j] * (1 / 65536.0f);
      float acc = (((c[4][i][j] * v + c[3][i][j]) * v + c[2][i][j]) * v + c[1][i][j]) * v + c[0][i][j];
      acc *= 65535;
      y[i][j] = (int)rintf(acc < 65535 ? acc : 65535);
    }
}
