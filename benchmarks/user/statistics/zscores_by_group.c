#include <math.h>
void kernel(const float *restrict x, const int *restrict key, float *restrict z) {
  float count[G] = {0}, one[G] = {0}, two[G] = {0}, scale[G];
#pragma omp parallel for reduction(+ : count[:G], one[:G], two[:G])
  for (int i = 0; i < N; i++) {
    count[key[i]]++;
    one[key[i]] += x[i];
    two[key[i]] += x[i] * x[i];
  }
  for (int c = 0; c < G; c++) {
    one[c] /= count[c];
    scale[c] = 1 / sqrtf(two[c] / count[c] - one[c] * one[c] + 1e-6f);
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++) z[i] = (x[i] - one[key[i]]) * scale[key[i]];
}
