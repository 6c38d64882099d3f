#include <math.h>
void kernel(const float *restrict x, const unsigned char *restrict label, float *restrict dx, float *restrict mean) {
  float total = 0;
#pragma omp parallel for reduction(+ : total)
  for (int i = 0; i < N; i++) {
    float sign = label[i] ? 1 : -1, z = sign * x[i], lp = (z < 0 ? z : 0) - logf(1 + expf(-fabsf(z))), p = expf(lp), q = 1 - p;
    total -= q * q * lp;
    dx[i] = sign * q * q * (2 * p * lp - q) / N;
  }
  mean[0] = total / N;
}
