#include <math.h>
__attribute__((noinline)) static void row(const unsigned char (*restrict x)[W * 8], const float (*restrict basis)[8],
                                          const float (*restrict scale)[8], short (*restrict y)[8][8]) {
  for (int j = 0; j < W; j++) {
    float rows[8][8];
    for (int k = 0; k < 8; k++)
      for (int v = 0; v < 8; v++) {
        rows[k][v] = 0;
        for (int l = 0; l < 8; l++) rows[k][v] += (x[k][j * 8 + l] - 128.0f) * basis[v][l];
      }
    for (int u = 0; u < 8; u++)
      for (int v = 0; v < 8; v++) {
        float both = 0;
        for (int k = 0; k < 8; k++) both += basis[u][k] * rows[k][v];
        y[j][u][v] = rintf(both * scale[u][v]);
      }
  }
}
void kernel(const unsigned char (*restrict x)[W * 8], const float (*restrict basis)[8],
            const float (*restrict scale)[8], short (*restrict y)[W][8][8]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x + i * 8, basis, scale, y[i]);
}
