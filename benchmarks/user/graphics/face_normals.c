#include <math.h>
void kernel(const int (*restrict at)[3], const float (*restrict x)[3], float (*restrict y)[4]) {
#pragma omp parallel for
  for (int i = 0; i < T; i++) {
    const float *a = x[at[i][0]], *b = x[at[i][1]], *c = x[at[i][2]];
    float u0 = b[0] - a[0], u1 = b[1] - a[1], u2 = b[2] - a[2], w0 = c[0] - a[0], w1 = c[1] - a[1], w2 = c[2] - a[2];
    float n0 = u1 * w2 - u2 * w1, n1 = u2 * w0 - u0 * w2, n2 = u0 * w1 - u1 * w0;
    float size = sqrtf(n0 * n0 + n1 * n1 + n2 * n2 + 1e-12f), over = 1 / size;
    y[i][0] = n0 * over, y[i][1] = n1 * over, y[i][2] = n2 * over, y[i][3] = 0.5f * size;
  }
}
