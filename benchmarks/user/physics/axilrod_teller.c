#include <math.h>
void kernel(const double (*restrict x)[3], double *restrict y) {
  static double far[N][N];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      far[i][j] = 0.2;
      for (int c = 0; c < 3; c++) far[i][j] += (x[i][c] - x[j][c]) * (x[i][c] - x[j][c]);
    }
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double total = 0;
    for (int j = 0; j < N; j++) {
      if (j == i) continue;
      for (int k = j + 1; k < N; k++) {
        double a = far[i][j], b = far[j][k], c = far[i][k], s = 1 / (a * b * c);
        double one = s * sqrt(s) * (1 + 0.375 * (b + c - a) * (a + c - b) * (a + b - c) * s);
        total += k == i ? 0 : one;
      }
    }
    y[i] = total;
  }
}
