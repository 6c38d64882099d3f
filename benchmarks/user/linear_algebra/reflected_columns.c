static void column(const double *restrict a, const double *restrict v, double by, double *restrict y) {
  double dot = 0;
  for (int p = 0; p < M; p++) dot += v[p] * a[p];
  dot *= by;
  for (int p = 0; p < M; p++) y[p] = a[p] - dot * v[p];
}
void kernel(const double (*restrict a)[N][M], const double (*restrict v)[M], double (*restrict y)[N][M]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double norm = 0;
    for (int p = 0; p < M; p++) norm += v[i][p] * v[i][p];
    for (int j = 0; j < N; j++) column(a[i][j], v[i], 2 / norm, y[i][j]);
  }
}
