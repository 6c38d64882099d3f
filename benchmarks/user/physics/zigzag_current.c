#include <string.h>
static float relay(int hop, float a, float b) {
  float low = hop < 0 ? 0 : 1, high = hop > 0 ? 1 : 0, m = (a + b) / 2;
  m = m > high ? m : high;
  return m < low ? m : low;
}
void kernel(const int *restrict cell_x, const int *restrict cell_y, const float *restrict at_x, const float *restrict at_y,
            const float *restrict step_x, const float *restrict step_y, const float *restrict q, float (*restrict jx)[GX],
            float (*restrict jy)[GX]) {
  memset(jx, 0, sizeof(float) * GY * GX), memset(jy, 0, sizeof(float) * GY * GX);
  for (int p = 0; p < N; p++) {
    float x0 = at_x[p], y0 = at_y[p], x2 = x0 + step_x[p], y2 = y0 + step_y[p];
    int hx = x2 < 0 ? -1 : x2 >= 1, hy = y2 < 0 ? -1 : y2 >= 1, x = cell_x[p], y = cell_y[p];
    float xr = relay(hx, x0, x2), yr = relay(hy, y0, y2);
    float fx = q[p] * (xr - x0), fy = q[p] * (yr - y0), wx = (x0 + xr) / 2, wy = (y0 + yr) / 2;
    jx[y][x] += fx * (1 - wy), jx[y + 1][x] += fx * wy;
    jy[y][x] += fy * (1 - wx), jy[y][x + 1] += fy * wx;
    x += hx, y += hy;
    fx = q[p] * (x2 - xr), fy = q[p] * (y2 - yr), wx = (xr + x2) / 2 - hx, wy = (yr + y2) / 2 - hy;
    jx[y][x] += fx * (1 - wy), jx[y + 1][x] += fx * wy;
    jy[y][x] += fy * (1 - wx), jy[y][x + 1] += fy * wx;
  }
}
