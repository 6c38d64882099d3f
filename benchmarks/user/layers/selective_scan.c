#include <math.h>
static void feature(const float (*restrict x)[D], const float (*restrict step)[D], const float *restrict a, float skip,
                    const float (*restrict b)[N], const float (*restrict c)[N], float (*restrict y)[D]) {
  float state[N] = {0};
  for (int i = 0; i < T; i++) {
    float s = step[i][0], gain = s * x[i][0], read = skip * x[i][0];
#pragma omp simd reduction(+ : read)
    for (int k = 0; k < N; k++) {
      state[k] = expf(s * a[k]) * state[k] + gain * b[i][k];
      read += c[i][k] * state[k];
    }
    y[i][0] = read;
  }
}
void kernel(const float (*restrict x)[D], const float (*restrict step)[D], const float (*restrict a)[N], const float *restrict skip,
            const float (*restrict b)[N], const float (*restrict c)[N], float (*restrict y)[D]) {
#pragma omp parallel for
  for (int j = 0; j < D; j++)
    feature((const void *)&x[0][j], (const void *)&step[0][j], a[j], skip[j], b, c, (void *)&y[0][j]);
}
