#include <math.h>
#include <stdlib.h>
void kernel(const short (*restrict x)[3], const int (*restrict pick)[3], int *restrict count, int *restrict best) {
#pragma omp parallel for
  for (int h = 0; h < M; h++) {
    const short *a = x[pick[h][0]], *b = x[pick[h][1]], *c = x[pick[h][2]];
    int p[3], q[3], near = 0;
    for (int d = 0; d < 3; d++) p[d] = b[d] - a[d], q[d] = c[d] - a[d];
    int u = p[1] * q[2] - p[2] * q[1], v = p[2] * q[0] - p[0] * q[2], w = p[0] * q[1] - p[1] * q[0];
    int off = u * a[0] + v * a[1] + w * a[2], limit = 2 * sqrt((double)u * u + (double)v * v + (double)w * w);
    for (int i = 0; i < N; i++) near += abs(u * x[i][0] + v * x[i][1] + w * x[i][2] - off) <= limit;
    count[h] = near;
  }
  *best = 0;
  for (int h = 1; h < M; h++)
    if (count[h] > count[*best]) *best = h;
}
