#include <math.h>
void kernel(const double *restrict x, const int (*restrict at)[N], double *restrict mean, double *restrict error) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double picked[N], one = 0, two = 0;
    for (int j = 0; j < N; j++) one += picked[j] = x[at[i][j]];
    one /= N;
    for (int j = 0; j < N; j++) two += (picked[j] - one) * (picked[j] - one);
    mean[i] = one;
    error[i] = sqrt(two / (N - 1) / N);
  }
}
