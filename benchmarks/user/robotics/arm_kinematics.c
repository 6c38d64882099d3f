#include <math.h>
static void turns(const float *restrict q, float *restrict c, float *restrict s) {
  for (int i = 0; i < N; i++) c[i] = cosf(q[i]);
  for (int i = 0; i < N; i++) s[i] = sinf(q[i]);
}
void kernel(const float (*restrict q)[N], const float *restrict length, float (*restrict y)[N]) {
  static float co[7][N], si[7][N];
  float l[7];
  for (int k = 0; k < 7; k++) l[k] = length[k];
#pragma omp parallel for
  for (int k = 0; k < 7; k++) turns(q[k], co[k], si[k]);
#pragma omp parallel for simd
  for (int i = 0; i < N; i++) {
    float x0 = 1, x1 = 0, x2 = 0, y0 = 0, y1 = 1, y2 = 0, z0 = 0, z1 = 0, z2 = 1, p0 = 0, p1 = 0, p2 = 0;
#pragma GCC unroll 7
    for (int k = 0; k < 7; k++) {
      float c = co[k][i], s = si[k][i], side = k % 2 ? 1 : -1;
      p0 += z0 * l[k], p1 += z1 * l[k], p2 += z2 * l[k];
      float u0 = x0 * c + y0 * s, u1 = x1 * c + y1 * s, u2 = x2 * c + y2 * s;
      float v0 = y0 * c - x0 * s, v1 = y1 * c - x1 * s, v2 = y2 * c - x2 * s;
      x0 = u0, x1 = u1, x2 = u2;
      y0 = z0 * side, y1 = z1 * side, y2 = z2 * side;
      z0 = -side * v0, z1 = -side * v1, z2 = -side * v2;
    }
    y[0][i] = p0, y[1][i] = p1, y[2][i] = p2;
    y[3][i] = z0, y[4][i] = z1, y[5][i] = z2;
  }
}
