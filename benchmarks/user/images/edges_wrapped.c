#include <math.h>
static float soft[H][W];
static float mix(const float *u, const float *c, const float *d, int l, int j, int r) {
  return 0.0625f * (u[l] + u[r] + d[l] + d[r]) + 0.125f * (u[j] + d[j] + c[l] + c[r]) + 0.25f * c[j];
}
static float slope(const float *u, const float *c, const float *d, int l, int j, int r) {
  float down = d[j] - u[j], right = c[r] - c[l];
  return sqrtf(down * down + right * right);
}
void kernel(const float (*restrict x)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *u = x[(i + H - 1) % H], *c = x[i], *d = x[(i + 1) % H];
    soft[i][0] = mix(u, c, d, W - 1, 0, 1);
    for (int j = 1; j < W - 1; j++) soft[i][j] = mix(u, c, d, j - 1, j, j + 1);
    soft[i][W - 1] = mix(u, c, d, W - 2, W - 1, 0);
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const float *u = soft[(i + H - 1) % H], *c = soft[i], *d = soft[(i + 1) % H];
    y[i][0] = slope(u, c, d, W - 1, 0, 1);
    for (int j = 1; j < W - 1; j++) y[i][j] = slope(u, c, d, j - 1, j, j + 1);
    y[i][W - 1] = slope(u, c, d, W - 2, W - 1, 0);
  }
}
