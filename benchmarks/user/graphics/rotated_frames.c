#include <math.h>
void kernel(const float (*restrict angle)[3], const float (*restrict move)[3], const float (*restrict x)[J][3], float (*restrict y)[J][3]) {
#pragma omp parallel for
  for (int f = 0; f < N; f++) {
    float ca = cosf(angle[f][0]), sa = sinf(angle[f][0]), cb = cosf(angle[f][1]), sb = sinf(angle[f][1]);
    float cc = cosf(angle[f][2]), sc = sinf(angle[f][2]);
    float r[3][3] = {{ca * cb, ca * sb * sc - sa * cc, ca * sb * cc + sa * sc},
                     {sa * cb, sa * sb * sc + ca * cc, sa * sb * cc - ca * sc}, {-sb, cb * sc, cb * cc}};
    for (int i = 0; i < J; i++)
      for (int a = 0; a < 3; a++) y[f][i][a] = r[a][0] * x[f][i][0] + r[a][1] * x[f][i][1] + r[a][2] * x[f][i][2] + move[f][a];
  }
}
