#include <math.h>
static float dot(const float *restrict a, const float *restrict b) {
  float sum = 0;
  for (int f = 0; f < D; f++) sum += a[f] * b[f];
  return sum;
}
void kernel(const float (*restrict q)[G][R][D], const _Float16 (*restrict key)[PAGE][G][D],
            const _Float16 (*restrict value)[PAGE][G][D], const int (*restrict table)[PAGES], const int *restrict length,
            float (*restrict y)[G][R][D]) {
#pragma omp parallel for collapse(2)
  for (int i = 0; i < B; i++)
    for (int a = 0; a < G; a++) {
      float p[R][PAGES * PAGE], wide[D], most[R], total[R] = {0}, out[R][D] = {0};
      int n = length[i];
      for (int e = 0; e < R; e++) most[e] = -INFINITY;
      for (int j = 0; j < n; j++) {
        for (int f = 0; f < D; f++) wide[f] = key[table[i][j / PAGE]][j % PAGE][a][f];
        for (int e = 0; e < R; e++) {
          p[e][j] = dot(q[i][a][e], wide) / sqrtf(D);
          most[e] = p[e][j] > most[e] ? p[e][j] : most[e];
        }
      }
      for (int e = 0; e < R; e++)
        for (int j = 0; j < n; j++) total[e] += p[e][j] = expf(p[e][j] - most[e]);
      for (int j = 0; j < n; j++) {
        for (int f = 0; f < D; f++) wide[f] = value[table[i][j / PAGE]][j % PAGE][a][f];
        for (int e = 0; e < R; e++)
          for (int f = 0; f < D; f++) out[e][f] += p[e][j] * wide[f];
      }
      for (int e = 0; e < R; e++)
        for (int f = 0; f < D; f++) y[i][a][e][f] = out[e][f] / total[e];
    }
}
