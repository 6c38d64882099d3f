#include <math.h>
void kernel(const double (*restrict r)[N], const double *restrict omega, const double *restrict alpha, const double *restrict beta,
            double *restrict likely, double *restrict next) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double h[N + 1], start = 0, total = 0;
    for (int t = 0; t < N; t++) start += r[i][t] * r[i][t];
    h[0] = start / N;
    for (int t = 0; t < N; t++) h[t + 1] = omega[i] + alpha[i] * r[i][t] * r[i][t] + beta[i] * h[t];
    for (int t = 0; t < N; t++) total += log(h[t]) + r[i][t] * r[i][t] / h[t];
    likely[i] = -0.5 * (total + N * 1.8378770664093453);
    next[i] = h[N];
  }
}
