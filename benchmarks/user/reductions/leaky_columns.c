void kernel(const float (*restrict a)[N], const float (*restrict x)[N], float (*restrict y)[N]) {
  for (int j = 0; j < N; j++) y[0][j] = x[0][j];
  for (int i = 1; i < T; i++)
    for (int j = 0; j < N; j++) y[i][j] = a[i][j] * y[i - 1][j] + x[i][j];
}
