#include <math.h>
void kernel(const float (*restrict a)[10], const float (*restrict b)[4], float (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float l[4][4], d[4], z[4], o[4];
    int k = 0;
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++)
#pragma GCC unroll 4
      for (int q = 0; q <= p; q++) {
        float v = a[i][k++] + (p == q ? 4 : 0);
        for (int r = 0; r < q; r++) v -= l[p][r] * l[q][r];
        if (p == q) d[p] = 1 / sqrtf(v);
        else l[p][q] = v * d[q];
      }
#pragma GCC unroll 4
    for (int p = 0; p < 4; p++) {
      float v = b[i][p];
      for (int r = 0; r < p; r++) v -= l[p][r] * z[r];
      z[p] = v * d[p];
    }
#pragma GCC unroll 4
    for (int p = 3; p >= 0; p--) {
      float v = z[p];
      for (int r = p + 1; r < 4; r++) v -= l[r][p] * o[r];
      y[i][p] = o[p] = v * d[p];
    }
  }
}
