#include <math.h>
void kernel(const float *restrict score, const float *restrict v, const int *restrict start, const int *restrict many,
            float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    const float *x = score + start[i], *z = v + start[i];
    float top = x[0], den = 0, num = 0;
    for (int k = 1; k < many[i]; k++) top = x[k] > top ? x[k] : top;
    for (int k = 0; k < many[i]; k++) {
      float e = expf(x[k] - top);
      den += e;
      num += e * z[k];
    }
    y[i] = num / den;
  }
}
