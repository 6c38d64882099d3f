// What C has for contractions: one blocked product, which all cases share, and arrays on cache lines.
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#pragma GCC target("prefer-vector-width=512")
#define PAR _Pragma("omp parallel for")

static float *room(size_t n) { return aligned_alloc(64, (sizeof(float) * n + 63) / 64 * 64); }

// c = a @ b: panels of 32 columns are packed, 4 rows at once
static void product(const float *restrict a, const float *restrict b, float *restrict c, int m, int n, int k) {
  PAR for (int j0 = 0; j0 < n; j0 += 32) {
    int w = n - j0 < 32 ? n - j0 : 32;
    float *p = room(32 * (size_t)k);
    for (int l = 0; l < k; l++) {
      for (int j = 0; j < w; j++) p[l * 32 + j] = b[(size_t)l * n + j0 + j];
      for (int j = w; j < 32; j++) p[l * 32 + j] = 0;
    }
    int i = 0;
    for (; i + 4 <= m; i += 4) {
      float s[4][32];
      memset(s, 0, sizeof s);
      for (int l = 0; l < k; l++)
        for (int r = 0; r < 4; r++) {
          float x = a[(size_t)(i + r) * k + l];
          for (int j = 0; j < 32; j++) s[r][j] += x * p[l * 32 + j];
        }
      for (int r = 0; r < 4; r++)
        for (int j = 0; j < w; j++) c[(size_t)(i + r) * n + j0 + j] = s[r][j];
    }
    for (; i < m; i++) {
      float s[32] = {0};
      for (int l = 0; l < k; l++)
        for (int j = 0; j < 32; j++) s[j] += a[(size_t)i * k + l] * p[l * 32 + j];
      for (int j = 0; j < w; j++) c[(size_t)i * n + j0 + j] = s[j];
    }
    free(p);
  }
}

// a (m, n) as (n, m)
static float *turned(const float *restrict a, int m, int n) {
  float *t = room((size_t)m * n);
  for (int i = 0; i < m; i++) for (int j = 0; j < n; j++) t[j * m + i] = a[i * n + j];
  return t;
}
