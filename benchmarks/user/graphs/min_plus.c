void kernel(const float (*restrict a)[K], const float (*restrict b)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    for (int j = 0; j < N; j++) y[i][j] = a[i][0] + b[0][j];
    for (int l = 1; l < K; l++)
      for (int j = 0; j < N; j++) {
        float v = a[i][l] + b[l][j];
        y[i][j] = v < y[i][j] ? v : y[i][j];
      }
  }
}
