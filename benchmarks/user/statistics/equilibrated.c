#include <math.h>
void kernel(const double (*restrict a)[N], double (*restrict y)[N], double *restrict apart, double *restrict trace) {
  double r[N] = {0}, c[N] = {0}, down[N] = {0}, sum = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      double v = fabs(a[i][j]);
      r[i] = v > r[i] ? v : r[i];
      c[j] = v > c[j] ? v : c[j];
    }
  for (int i = 0; i < N; i++) r[i] = 1 / sqrt(r[i]), c[i] = 1 / sqrt(c[i]);
  for (int i = 0; i < N; i++) {
    double row = 0;
    for (int j = 0; j < N; j++) {
      y[i][j] = a[i][j] * r[i] * c[j];
      row += fabs(y[i][j]);
      down[j] += fabs(y[i][j]);
    }
    apart[i] = row;
    sum += y[i][i];
  }
  for (int i = 0; i < N; i++) apart[i] -= down[i];
  *trace = sum;
}
