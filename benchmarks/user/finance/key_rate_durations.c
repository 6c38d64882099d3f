#include <math.h>
static void bond(const double *restrict when, const double *restrict pays, const double *restrict zero, double *price,
                 double *restrict change) {
  double total = 0;
  for (int k = 0; k < K; k++) change[k] = 0;
  for (int j = 0; j < C; j++) {
    int at = when[j];
    double part = when[j] - at, rate = zero[at] * (1 - part) + zero[at + 1] * part, worth = pays[j] * exp(-rate * when[j]);
    total += worth;
    change[at] -= worth * when[j] * (1 - part) * 1e-4;
    change[at + 1] -= worth * when[j] * part * 1e-4;
  }
  *price = total;
}
void kernel(const double (*restrict when)[C], const double (*restrict pays)[C], const double *restrict zero, double *restrict price,
            double (*restrict change)[K]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) bond(when[i], pays[i], zero, price + i, change[i]);
}
