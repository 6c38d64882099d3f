#include <math.h>
static void corner(const float (*restrict x)[W][C], int r, int s, float share, float *restrict read) {
  if (r < 0 || r >= H || s < 0 || s >= W) return;
  for (int e = 0; e < C; e++) read[e] += share * x[r][s][e];
}
void kernel(const float (*restrict x)[W][C], const float (*restrict weight)[C][O], const float (*restrict offset)[W][9][2],
            const float *restrict bias, float (*restrict y)[W][O]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float sum[O];
      for (int o = 0; o < O; o++) sum[o] = bias[o];
      for (int k = 0; k < 9; k++) {
        float v = i + k / 3 - 1 + offset[i][j][k][0], u = j + k % 3 - 1 + offset[i][j][k][1], read[C] = {0};
        int r = (int)floorf(v), s = (int)floorf(u);
        float a = v - r, b = u - s;
        corner(x, r, s, (1 - a) * (1 - b), read);
        corner(x, r, s + 1, (1 - a) * b, read);
        corner(x, r + 1, s, a * (1 - b), read);
        corner(x, r + 1, s + 1, a * b, read);
        for (int e = 0; e < C; e++)
          for (int o = 0; o < O; o++) sum[o] += read[e] * weight[k][e][o];
      }
      for (int o = 0; o < O; o++) y[i][j][o] = sum[o];
    }
}
