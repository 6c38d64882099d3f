#include <math.h>
#include "../bf16.h"

static void token(const bf16 (*restrict x)[K], const float *restrict heat, bf16 (*restrict y)[K]) {
  float e[G * K], over[G];
  for (int a = 0; a < G; a++) {
    float top = -INFINITY;
    for (int j = 0; j < K; j++) {
      e[a * K + j] = wide(x[a][j]) * heat[a];
      top = e[a * K + j] > top ? e[a * K + j] : top;
    }
    for (int j = 0; j < K; j++) e[a * K + j] -= top;
  }
  for (int j = 0; j < G * K; j++) e[j] = expf(e[j]);
  for (int a = 0; a < G; a++) {
    float total = 0;
    for (int j = 0; j < K; j++) total += e[a * K + j];
    over[a] = 1 / total;
  }
  for (int a = 0; a < G; a++)
    for (int j = 0; j < K; j++) y[a][j] = narrow(e[a * K + j] * over[a]);
}
void kernel(const bf16 (*restrict x)[G][K], const float *restrict heat, bf16 (*restrict y)[G][K]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) token(x[i], heat, y[i]);
}
