void kernel(const double (*restrict d)[N], double (*restrict y)[N]) {
  double row[N], column[N], total = 0;
  for (int j = 0; j < N; j++) column[j] = 0;
  for (int i = 0; i < N; i++) {
    double sum = 0;
    for (int j = 0; j < N; j++) sum += d[i][j] * d[i][j], column[j] += d[i][j] * d[i][j];
    row[i] = sum / N, total += sum;
  }
  for (int j = 0; j < N; j++) column[j] = column[j] / N - total / N / N;
#pragma omp parallel for
  for (int i = 0; i < N; i++)
#pragma omp simd
    for (int j = 0; j < N; j++) y[i][j] = -0.5 * (d[i][j] * d[i][j] - row[i] - column[j]);
}
