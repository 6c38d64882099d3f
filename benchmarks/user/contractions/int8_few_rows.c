#include "contractions.h"

// with few rows a weight is used in registers; a group is summed up before it is scaled
void kernel(const float *restrict x, const int8_t *restrict w, const float *restrict s, float *restrict y) {
  PAR for (int j0 = 0; j0 < N; j0 += 64) {
    float acc[M][64];
    memset(acc, 0, sizeof acc);
    for (int g = 0; g < K / G; g++) {
      float q[M][64];
      memset(q, 0, sizeof q);
      for (int l = g * G; l < g * G + G; l++) {
        float v[64];
        for (int j = 0; j < 64; j++) v[j] = (float)w[(size_t)l * N + j0 + j];
        for (int i = 0; i < M; i++)
          for (int j = 0; j < 64; j++) q[i][j] += x[i * K + l] * v[j];
      }
      for (int i = 0; i < M; i++)
        for (int j = 0; j < 64; j++) acc[i][j] += q[i][j] * s[g * N + j0 + j];
    }
    for (int i = 0; i < M; i++)
      for (int j = 0; j < 64; j++) y[i * N + j0 + j] = acc[i][j];
  }
}
