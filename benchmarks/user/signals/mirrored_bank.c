#include <math.h>
static void row(const float *restrict x, const float *restrict t, float *restrict y, float *restrict top, int *restrict place) {
  float most = 0;
  for (int j = 0; j < N; j++) {
    float low = 0, high = 0;
    for (int k = 0; k < 8; k++) {
      float v = x[2 * N + 5 - 2 * j - k];
      low += t[k] * v;
      high += (k % 2 ? -t[7 - k] : t[7 - k]) * v;
    }
    y[j] = low;
    y[2 * N - 1 - j] = high;
    most = fabsf(high) > most ? fabsf(high) : most;
  }
  int at = 0;
  while (at < N && fabsf(y[2 * N - 1 - at]) < 0.75f * most) at++;
  *top = most;
  *place = at;
}
void kernel(const float (*restrict x)[2 * N + 6], const float *restrict t, float (*restrict y)[2 * N], float *restrict top,
            int *restrict place) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) row(x[i], t, y[i], top + i, place + i);
}
