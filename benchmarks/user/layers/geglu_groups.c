#include <math.h>
#include "../bf16.h"

void kernel(const bf16 (*restrict x)[2 * F], signed char (*restrict y)[F], float (*restrict scale)[F / G]) {
#pragma omp parallel for
  for (int i = 0; i < T; i++)
    for (int a = 0; a < F / G; a++) {
      float h[G], most = 0;
      for (int b = 0; b < G; b++) {
        float gate = wide(x[i][a * G + b]);
        h[b] = 0.5f * gate * (1 + erff(gate * 0.70710678f)) * wide(x[i][F + a * G + b]);
        most = fabsf(h[b]) > most ? fabsf(h[b]) : most;
      }
      float step = most * (1 / 127.f);
      step = step > 1e-8f ? step : 1e-8f;
      for (int b = 0; b < G; b++) y[i][a * G + b] = (signed char)rintf(h[b] / step);
      scale[i][a] = step;
    }
}
