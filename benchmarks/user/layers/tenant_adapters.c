#include "../bf16.h"

void kernel(const float (*restrict x)[K], const bf16 (*restrict w)[K], const float *restrict bias, const float (*restrict down)[R][K],
            const float (*restrict up)[N][R], const float *restrict strength, const int *restrict who, float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float narrow[R];
    int t = who[i];
    for (int c = 0; c < R && t >= 0; c++) {
      narrow[c] = 0;
      for (int a = 0; a < K; a++) narrow[c] += x[i][a] * down[t][c][a];
      narrow[c] *= strength[t];
    }
    for (int o = 0; o < N; o++) {
      float v = 0;
      for (int a = 0; a < K; a++) v += x[i][a] * wide(w[o][a]);
      for (int c = 0; c < R && t >= 0; c++) v += narrow[c] * up[t][o][c];
      y[i][o] = v + bias[o];
    }
  }
}
