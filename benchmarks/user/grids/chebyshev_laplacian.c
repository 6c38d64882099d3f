void kernel(const double (*restrict u)[N][N], const double (*restrict m)[N], double (*restrict y)[N][N]) {
  double t[N][N];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) t[j][i] = m[i][j];
#pragma omp parallel for
  for (int f = 0; f < B; f++)
    for (int i = 0; i < N; i++) {
      double acc[N];
      for (int j = 0; j < N; j++) acc[j] = -0.3 * u[f][i][j];
      for (int k = 0; k < N; k++)
        for (int j = 0; j < N; j++) acc[j] += m[i][k] * u[f][k][j] + u[f][i][k] * t[k][j];
      for (int j = 0; j < N; j++) y[f][i][j] = acc[j];
    }
}
