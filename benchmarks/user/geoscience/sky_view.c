#include <math.h>
static const int way[8][2] = {{0, 1}, {1, 1}, {1, 0}, {1, -1}, {0, -1}, {-1, -1}, {-1, 0}, {-1, 1}};
void kernel(const float (*restrict z)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float most[W], total[W];
    for (int j = 0; j < W; j++) total[j] = 0;
    for (int n = 0; n < 8; n++) {
      int dy = way[n][0], dx = way[n][1];
      for (int j = 0; j < W; j++) most[j] = 0;
      for (int s = 1; s <= R; s++) {
        if (i + s * dy < 0 || i + s * dy >= H) break;
        int o = s * dx, first = o < 0 ? -o : 0, end = o < 0 ? W : W - o;
        float f = 1 / (s * (dy && dx ? sqrtf(2) : 1));
        for (int j = first; j < end; j++) {
          float v = (z[i + s * dy][j + o] - z[i][j]) * f;
          most[j] = most[j] > v ? most[j] : v;
        }
      }
      for (int j = 0; j < W; j++) total[j] += 1 - most[j] / sqrtf(1 + most[j] * most[j]);
    }
    for (int j = 0; j < W; j++) y[i][j] = total[j] * 0.125f;
  }
}
