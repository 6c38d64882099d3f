#include <math.h>
static double table(const int (*restrict x)[C]) {
  const int *flat = x[0];
  int total = 0, column[C] = {0}, row[R] = {0};
  for (int u = 0; u < R; u++)
    for (int v = 0; v < C; v++) {
      row[u] += x[u][v];
      column[v] += x[u][v];
    }
  for (int u = 0; u < R; u++) total += row[u];
  double info = 0, n = total, share[R * C];
  for (int u = 0; u < R; u++)
    for (int v = 0; v < C; v++) share[u * C + v] = x[u][v] * n / ((double)row[u] * column[v]);
  for (int k = 0; k < R * C; k++) info += flat[k] * log(share[k]);
  return info / n;
}
void kernel(const int (*restrict x)[R][C], double *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) y[i] = table(x[i]);
}
