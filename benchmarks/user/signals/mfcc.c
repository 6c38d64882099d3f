#include <math.h>
static void frame(const float *restrict power, const int *restrict first, const float (*restrict weight)[24],
                  const float (*restrict dct)[M], float *restrict y) {
  float loud[M];
  for (int v = 0; v < M; v++) {
    float band = 1e-6f;
    for (int k = 0; k < 24; k++) band += power[first[v] + k] * weight[v][k];
    loud[v] = band;
  }
  for (int v = 0; v < M; v++) loud[v] = logf(loud[v]);
  for (int o = 0; o < C; o++) {
    y[o] = 0;
    for (int v = 0; v < M; v++) y[o] += loud[v] * dct[o][v];
  }
}
void kernel(const float (*restrict power)[B], const int *restrict first, const float (*restrict weight)[24],
            const float (*restrict dct)[M], float (*restrict y)[C]) {
  float mean[C] = {0};
#pragma omp parallel for
  for (int t = 0; t < F; t++) frame(power[t], first, weight, dct, y[t]);
  for (int t = 0; t < F; t++)
    for (int o = 0; o < C; o++) mean[o] += y[t][o];
  for (int t = 0; t < F; t++)
    for (int o = 0; o < C; o++) y[t][o] -= mean[o] * (1.f / F);
}
