#include <math.h>
void kernel(const short (*restrict z)[W], float (*restrict slope)[W], unsigned char (*restrict shade)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const short *u = z[i ? i - 1 : 0], *c = z[i], *d = z[i < H - 1 ? i + 1 : i];
    for (int j = 0; j < W; j++) {
      int l = j ? j - 1 : 0, r = j < W - 1 ? j + 1 : j;
      float east = (u[r] + 2 * c[r] + d[r] - u[l] - 2 * c[l] - d[l]) * (1.0f / 240);
      float south = (d[l] + 2 * d[j] + d[r] - u[l] - 2 * u[j] - u[r]) * (1.0f / 240);
      float steep = east * east + south * south;
      slope[i][j] = sqrtf(steep);
      float light = (0.7071f + 0.5f * (east + south)) / sqrtf(1 + steep);
      shade[i][j] = (int)((light > 0 ? light : 0) * 255);
    }
  }
}
