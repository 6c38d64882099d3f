#include <math.h>
static float lq[K][D];
static void row(const float *restrict p, float *restrict y) {
  float own = 0;
  for (int e = 0; e < D; e++) own += p[e] * logf(p[e]);
  for (int j = 0; j < K; j++) {
    float cross = 0;
    for (int e = 0; e < D; e++) cross += p[e] * lq[j][e];
    y[j] = own - cross;
  }
}
void kernel(const float (*restrict p)[D], const float (*restrict q)[D], float (*restrict y)[K]) {
  for (int j = 0; j < K; j++)
    for (int e = 0; e < D; e++) lq[j][e] = logf(q[j][e]);
#pragma omp parallel for
  for (int i = 0; i < N; i++) row(p[i], y[i]);
}
