#include <math.h>
void kernel(const double (*restrict gyro)[N][3], const double (*restrict acc)[N][3], double (*restrict attitude)[N][4],
            double (*restrict velocity)[N][3], double (*restrict place)[N][3]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    double w = 1, x = 0, y = 0, z = 0, v[3] = {0}, p[3] = {0};
    for (int t = 0; t < N; t++) {
      double a = gyro[i][t][0] * 0.0025, b = gyro[i][t][1] * 0.0025, c = gyro[i][t][2] * 0.0025;
      double over = 1 / sqrt(1 + a * a + b * b + c * c), w0 = w, x0 = x, y0 = y, z0 = z;
      w = over * (w0 - x0 * a - y0 * b - z0 * c), x = over * (w0 * a + x0 + y0 * c - z0 * b);
      y = over * (w0 * b - x0 * c + y0 + z0 * a), z = over * (w0 * c + x0 * b - y0 * a + z0);
      const double *f = acc[i][t];
      double r[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                        {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                        {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
      attitude[i][t][0] = w, attitude[i][t][1] = x, attitude[i][t][2] = y, attitude[i][t][3] = z;
      for (int k = 0; k < 3; k++) {
        v[k] += (r[k][0] * f[0] + r[k][1] * f[1] + r[k][2] * f[2] - (k == 2 ? 9.81 : 0)) * 0.005;
        p[k] += v[k] * 0.005;
        velocity[i][t][k] = v[k], place[i][t][k] = p[k];
      }
    }
  }
}
