#include <math.h>
void kernel(const double (*restrict f)[4], const double (*restrict q)[4], const double *restrict r, const double (*restrict z)[2],
            const double (*restrict x)[4], const double (*restrict p)[4][4], double (*restrict nx)[4], double (*restrict np)[4][4],
            double *restrict likely) {
#pragma omp parallel for
  for (int n = 0; n < B; n++) {
    double a[4] = {0}, fp[4][4] = {0}, c[4][4];
    for (int i = 0; i < 4; i++)
      for (int k = 0; k < 4; k++) {
        a[i] += f[i][k] * x[n][k];
        for (int j = 0; j < 4; j++) fp[i][j] += f[i][k] * p[n][k][j];
      }
    for (int i = 0; i < 4; i++)
      for (int j = 0; j < 4; j++) {
        c[i][j] = q[i][j];
        for (int k = 0; k < 4; k++) c[i][j] += fp[i][k] * f[j][k];
      }
    double s00 = c[0][0] + r[0], s01 = c[0][1], s10 = c[1][0], s11 = c[1][1] + r[1], det = s00 * s11 - s01 * s10;
    double y0 = z[n][0] - a[0], y1 = z[n][1] - a[1];
    for (int i = 0; i < 4; i++) {
      double k0 = (c[i][0] * s11 - c[i][1] * s10) / det, k1 = (c[i][1] * s00 - c[i][0] * s01) / det;
      nx[n][i] = a[i] + k0 * y0 + k1 * y1;
      for (int j = 0; j < 4; j++) np[n][i][j] = c[i][j] - k0 * c[0][j] - k1 * c[1][j];
    }
    double far = (y0 * (s11 * y0 - s01 * y1) + y1 * (s00 * y1 - s10 * y0)) / det;
    likely[n] = -0.5 * (far + log(det)) - 1.8378770664093453;
  }
}
