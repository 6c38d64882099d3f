#include <math.h>
static float f(float t) { return t > 0.008856f ? powf(t, 1 / 3.f) : 7.787f * t + 16 / 116.f; }
void kernel(const float (*restrict x)[W][3], _Float16 (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float r = x[i][j][0], g = x[i][j][1], b = x[i][j][2];
      float fx = f((0.4124f * r + 0.3576f * g + 0.1805f * b) * (1 / 0.9505f));
      float fy = f(0.2126f * r + 0.7152f * g + 0.0722f * b);
      float fz = f((0.0193f * r + 0.1192f * g + 0.9505f * b) * (1 / 1.089f));
      y[0][i][j] = 116 * fy - 16;
      y[1][i][j] = 500 * (fx - fy);
      y[2][i][j] = 200 * (fy - fz);
    }
}
