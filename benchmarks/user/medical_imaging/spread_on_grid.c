#include <string.h>
void kernel(const int *restrict u, const int *restrict v, const float (*restrict down)[K], const float (*restrict along)[K],
            const float *restrict re, const float *restrict im, float (*restrict real)[G], float (*restrict imag)[G],
            unsigned char (*restrict seen)[G]) {
  memset(real, 0, sizeof(float) * G * G), memset(imag, 0, sizeof(float) * G * G), memset(seen, 0, G * G);
  for (int i = 0; i < N; i++) {
    for (int a = 0; a < K; a++) {
      float r = re[i] * down[i][a], m = im[i] * down[i][a];
      float *restrict x = &real[v[i] + a][u[i]], *restrict y = &imag[v[i] + a][u[i]];
      for (int b = 0; b < K; b++) x[b] += r * along[i][b], y[b] += m * along[i][b];
    }
    seen[v[i]][u[i]] = 1;
  }
}
