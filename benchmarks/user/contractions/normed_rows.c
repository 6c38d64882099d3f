#include "contractions.h"

void kernel(const float *restrict a, const float *restrict w, float *restrict y) {
  float *d = room(M * K);
  PAR for (int i = 0; i < M; i++) {
    float m = 0, q = 0;
    for (int l = 0; l < K; l++) m += a[i * K + l];
    m /= K;
    for (int l = 0; l < K; l++) q += (a[i * K + l] - m) * (a[i * K + l] - m);
    q = 1 / sqrtf(q / K + 1e-5f);
    for (int l = 0; l < K; l++) d[i * K + l] = (a[i * K + l] - m) * q;
  }
  product(d, w, y, M, N, K);
  free(d);
}
