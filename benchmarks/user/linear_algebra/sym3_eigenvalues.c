#include <math.h>
static void some(const double (*restrict t)[N], double (*restrict y)[N], int from, int to) {
  for (int i = from; i < to; i++) {
    double xy = t[3][i], xz = t[4][i], yz = t[5][i], mean = (t[0][i] + t[1][i] + t[2][i]) * (1 / 3.0);
    double a = t[0][i] - mean, b = t[1][i] - mean, c = t[2][i] - mean;
    double p = sqrt((a * a + b * b + c * c + 2 * (xy * xy + xz * xz + yz * yz)) * (1 / 6.0));
    double r = 0.5 * (a * (b * c - yz * yz) - xy * (xy * c - yz * xz) + xz * (xy * yz - b * xz)) / (p * p * p);
    r = r < -1 ? -1 : r > 1 ? 1 : r;
    double angle = acos(r) * (1 / 3.0);
    double first = mean + 2 * p * cos(angle), last = mean + 2 * p * cos(angle + 2 * M_PI / 3);
    y[0][i] = first, y[1][i] = 3 * mean - first - last, y[2][i] = last;
  }
}
void kernel(const double (*restrict t)[N], double (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 1024) some(t, y, i, i + 1024 < N ? i + 1024 : N);
}
