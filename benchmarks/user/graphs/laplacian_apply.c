#include <math.h>
void kernel(const double (*restrict w)[N], const double *restrict v, double *restrict y, int *restrict neighbours) {
  double r[N], u[N];
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double s = 0;
    int many = 0;
    for (int k = 0; k < N; k++) s += fabs(w[i][k]), many += w[i][k] > 0.5;
    r[i] = 1 / sqrt(s), u[i] = v[i] * r[i], neighbours[i] = many;
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double s = 0;
    for (int k = 0; k < N; k++) s += w[i][k] * u[k];
    y[i] = v[i] - s * r[i];
  }
}
