#include <math.h>
void kernel(const float (*restrict cost)[N], const float *restrict v, const float *restrict weight, float *restrict u) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float total = 0;
    for (int j = 0; j < N; j++) total += expf(cost[i][j] * -20) * v[j];
    u[i] = weight[i] / total;
  }
}
