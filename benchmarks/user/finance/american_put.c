#include <math.h>
void kernel(const float *restrict spot, const float *restrict strike, float *restrict put) {
  float up[25];
  for (int k = 0; k < 25; k++) up[k] = powf(1.05f, k - 12);
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float w[13];
    for (int k = 0; k < 13; k++) w[k] = fmaxf(strike[i] - spot[i] * up[2 * k], 0);
    for (int t = 11; t >= 0; t--)
      for (int k = 0; k <= t; k++) w[k] = fmaxf(0.49f * w[k] + 0.5f * w[k + 1], strike[i] - spot[i] * up[12 + 2 * k - t]);
    put[i] = w[0];
  }
}
