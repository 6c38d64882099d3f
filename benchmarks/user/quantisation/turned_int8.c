#include <math.h>
void kernel(const float (*restrict x)[G * 64], signed char (*restrict y)[G * 64], float *restrict scale) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float v[G * 64], most = 0;
    for (int j = 0; j < G * 64; j++) v[j] = x[i][j];
    for (int step = 1; step < 64; step *= 2)
      for (int a = 0; a < G * 64; a += 2 * step)
        for (int b = a; b < a + step; b++) {
          float e = v[b], f = v[b + step];
          v[b] = e + f, v[b + step] = e - f;
        }
    for (int j = 0; j < G * 64; j++) most = fmaxf(most, fabsf(v[j]));
    most = fmaxf(most / 127, 1e-20f);
    for (int j = 0; j < G * 64; j++) y[i][j] = (signed char)rintf(v[j] / most);
    scale[i] = most * 0.125f;
  }
}
