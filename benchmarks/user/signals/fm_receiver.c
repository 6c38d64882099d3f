#include <math.h>
static void station(const short (*restrict x)[2], short *restrict y) {
  float turn[N], sound = 0;
  for (int t = 0; t < N; t++) {
    float a = x[t][0], b = x[t][1], p = x[t + 1][0], q = x[t + 1][1];
    turn[t] = 0.25f * atan2f(a * q - b * p, a * p + b * q);
  }
  for (int t = 0; t < N; t++) turn[t] = sound = 0.75f * sound + turn[t];
  for (int t = 0; t < N; t++) y[t] = (int)rintf(turn[t] * 9000);
}
void kernel(const short (*restrict x)[N + 1][2], short (*restrict y)[N]) {
#pragma omp parallel for
  for (int e = 0; e < C; e++) station(x[e], y[e]);
}
