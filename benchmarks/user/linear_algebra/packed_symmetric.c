void kernel(const double *restrict a, const double *restrict x, double *restrict y) {
  for (int i = 0; i < N; i++) y[i] = 0;
  for (int i = 0; i < N; i++) {
    const double *row = a + (long)i * N - (long)i * (i - 1) / 2 - i;
    double dot = 0;
    for (int j = i + 1; j < N; j++) {
      dot += row[j] * x[j];
      y[j] += row[j] * x[i];
    }
    y[i] += dot + row[i] * x[i];
  }
}
