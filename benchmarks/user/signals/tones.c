#include <math.h>
void kernel(const float (*restrict x)[N], const float *restrict turn, float (*restrict y)[K]) {
  float two[K];
  for (int f = 0; f < K; f++) two[f] = 2 * cosf(turn[f]);
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float p[K] = {0}, q[K] = {0};
    for (int t = 0; t < N; t++)
#pragma omp simd
      for (int f = 0; f < K; f++) {
        float now = x[i][t] + two[f] * p[f] - q[f];
        q[f] = p[f];
        p[f] = now;
      }
    for (int f = 0; f < K; f++) y[i][f] = p[f] * p[f] + q[f] * q[f] - two[f] * p[f] * q[f];
  }
}
