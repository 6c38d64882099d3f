#include <string.h>
static inline double sq(double v) { return v * v; }
void kernel(const double (*restrict u)[N], double (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double x[N + 5], face[N + 1];
    x[0] = u[i][N - 3], x[1] = u[i][N - 2], x[2] = u[i][N - 1], x[N + 3] = u[i][0], x[N + 4] = u[i][1];
    memcpy(x + 3, u[i], sizeof u[i]);
    for (int j = 0; j <= N; j++) {
      double p = x[j], q = x[j + 1], r = x[j + 2], s = x[j + 3], t = x[j + 4];
      double a = 0.1 / sq(1e-6 + 13 / 12.0 * sq(p - 2 * q + r) + 0.25 * sq(p - 4 * q + 3 * r));
      double b = 0.6 / sq(1e-6 + 13 / 12.0 * sq(q - 2 * r + s) + 0.25 * sq(q - s));
      double c = 0.3 / sq(1e-6 + 13 / 12.0 * sq(r - 2 * s + t) + 0.25 * sq(3 * r - 4 * s + t));
      face[j] = (a * (2 * p - 7 * q + 11 * r) + b * (5 * r - q + 2 * s) + c * (2 * r + 5 * s - t)) / (6 * (a + b + c));
    }
    for (int j = 0; j < N; j++) y[i][j] = u[i][j] - 0.4 * (face[j + 1] - face[j]);
  }
}
