void kernel(const double (*restrict d)[2 * N - 1], const double (*restrict x)[N], double (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++)
    for (int r = 0; r < N; r++) {
      double sum = 0;
      for (int c = 0; c < N; c++) sum += d[i][N - 1 - r + c] * x[i][c];
      y[i][r] = sum;
    }
}
