#include <math.h>
void kernel(const float (*restrict a)[3][3], float (*restrict q)[3][3], float (*restrict r)[6]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float x0 = a[i][0][0], x1 = a[i][0][1], x2 = a[i][0][2], y0 = a[i][1][0], y1 = a[i][1][1], y2 = a[i][1][2];
    float z0 = a[i][2][0], z1 = a[i][2][1], z2 = a[i][2][2];
    float xx = x0 * x0 + x1 * x1 + x2 * x2 + 1e-12f, ox = 1 / sqrtf(xx);
    x0 *= ox, x1 *= ox, x2 *= ox;
    float xy = x0 * y0 + x1 * y1 + x2 * y2;
    y0 -= xy * x0, y1 -= xy * x1, y2 -= xy * x2;
    float yy = y0 * y0 + y1 * y1 + y2 * y2 + 1e-12f, oy = 1 / sqrtf(yy);
    y0 *= oy, y1 *= oy, y2 *= oy;
    float xz = x0 * z0 + x1 * z1 + x2 * z2;
    z0 -= xz * x0, z1 -= xz * x1, z2 -= xz * x2;
    float yz = y0 * z0 + y1 * z1 + y2 * z2;
    z0 -= yz * y0, z1 -= yz * y1, z2 -= yz * y2;
    float zz = z0 * z0 + z1 * z1 + z2 * z2 + 1e-12f, oz = 1 / sqrtf(zz);
    q[i][0][0] = x0, q[i][0][1] = x1, q[i][0][2] = x2, q[i][1][0] = y0, q[i][1][1] = y1, q[i][1][2] = y2;
    q[i][2][0] = z0 * oz, q[i][2][1] = z1 * oz, q[i][2][2] = z2 * oz;
    r[i][0] = xx * ox, r[i][1] = xy, r[i][2] = yy * oy, r[i][3] = xz, r[i][4] = yz, r[i][5] = zz * oz;
  }
}
