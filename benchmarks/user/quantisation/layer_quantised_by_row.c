#include <math.h>
void kernel(const float (*restrict x)[K], const signed char (*restrict w)[K], const float *restrict scale, const float *restrict bias,
            float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    signed char q[K];
    float top = 1e-9f;
    for (int k = 0; k < K; k++) top = fmaxf(top, fabsf(x[i][k]));
    float step = top * (1 / 127.0f);
    for (int k = 0; k < K; k++) q[k] = rintf(x[i][k] / step);
    for (int j = 0; j < N; j++) {
      int dot = 0;
      for (int k = 0; k < K; k++) dot += q[k] * w[j][k];
      y[i][j] = dot * (step * scale[j]) + bias[j];
    }
  }
}
