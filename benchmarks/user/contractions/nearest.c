#include "contractions.h"

// distances of 4 points to all centres, then the least and where it is
void kernel(const float *restrict x, const float *restrict c, int32_t *restrict y) {
  float *t = room(N * K), *norm = room(N);
  for (int j = 0; j < N; j++) {
    norm[j] = 0;
    for (int l = 0; l < K; l++) t[(j / 32 * K + l) * 32 + j % 32] = c[j * K + l], norm[j] += c[j * K + l] * c[j * K + l];
  }
  PAR for (int i = 0; i < M; i += 4) {
    float d[4][N];
    for (int j0 = 0; j0 < N; j0 += 32) {
      float s[4][32];
      memset(s, 0, sizeof s);
      if (SQUARES)
        for (int l = 0; l < K; l++) for (int r = 0; r < 4; r++) for (int j = 0; j < 32; j++) {
          float e = x[(i + r) * K + l] - t[(j0 / 32 * K + l) * 32 + j];
          s[r][j] += e * e;
        }
      else
        for (int l = 0; l < K; l++) for (int r = 0; r < 4; r++) for (int j = 0; j < 32; j++)
          s[r][j] += x[(i + r) * K + l] * t[(j0 / 32 * K + l) * 32 + j];
      for (int r = 0; r < 4; r++) for (int j = 0; j < 32; j++) d[r][j0 + j] = SQUARES ? s[r][j] : norm[j0 + j] - 2 * s[r][j];
    }
    for (int r = 0; r < 4; r++) {
      float low = FLT_MAX;
      int at = N;
      for (int j = 0; j < N; j++) low = d[r][j] < low ? d[r][j] : low;
      for (int j = 0; j < N; j++) {
        int here = d[r][j] == low ? j : N;
        at = here < at ? here : at;
      }
      y[i + r] = at;
    }
  }
  free(t), free(norm);
}
