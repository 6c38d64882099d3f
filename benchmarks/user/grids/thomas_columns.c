static void down(const double *restrict d, double low, double inv, const double *restrict before, double *restrict y) {
  for (int j = 0; j < M; j++) y[j] = (d[j] - low * before[j]) * inv;
}
static void up(double by, const double *restrict after, double *restrict y) {
  for (int j = 0; j < M; j++) y[j] -= by * after[j];
}
void kernel(const double (*restrict d)[M], const double *restrict low, const double *restrict inv, const double *restrict by,
            double (*restrict y)[M]) {
  for (int j = 0; j < M; j++) y[0][j] = d[0][j] * inv[0];
  for (int i = 1; i < N; i++) down(d[i], low[i], inv[i], y[i - 1], y[i]);
  for (int i = N - 2; i >= 0; i--) up(by[i], y[i + 1], y[i]);
}
