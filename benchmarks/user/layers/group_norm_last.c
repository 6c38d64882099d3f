#include <math.h>
#include "../bf16.h"

static void picture(const bf16 (*restrict x)[G * C], const float *restrict weight, const float *restrict bias, bf16 (*restrict y)[G * C]) {
  float one[G * C] = {0}, two[G * C] = {0}, scale[G * C], shift[G * C];
  for (int p = 0; p < N; p++)
    for (int l = 0; l < G * C; l++) {
      float v = wide(x[p][l]);
      one[l] += v, two[l] += v * v;
    }
  for (int f = 0; f < G; f++) {
    float total = 0, squares = 0;
    for (int l = f * C; l < (f + 1) * C; l++) total += one[l], squares += two[l];
    float mean = total / (N * C), over = 1 / sqrtf(squares / (N * C) - mean * mean + 1e-5f);
    for (int l = f * C; l < (f + 1) * C; l++) scale[l] = over * weight[l], shift[l] = bias[l] - mean * scale[l];
  }
  for (int p = 0; p < N; p++)
    for (int l = 0; l < G * C; l++) {
      float v = wide(x[p][l]) * scale[l] + shift[l];
      y[p][l] = narrow(v / (1 + expf(-v)));
    }
}
void kernel(const bf16 (*restrict x)[N][G * C], const float *restrict weight, const float *restrict bias, bf16 (*restrict y)[N][G * C]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) picture(x[e], weight, bias, y[e]);
}
