static float t[M][L];
void kernel(const float (*restrict a)[K], const float (*restrict b)[L],
            const float (*restrict c)[N], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    for (int q = 0; q < L; q++) t[i][q] = 0;
    for (int p = 0; p < K; p++)
      for (int q = 0; q < L; q++) t[i][q] += a[i][p] * b[p][q];
    for (int j = 0; j < N; j++) y[i][j] = 0;
    for (int q = 0; q < L; q++)
      for (int j = 0; j < N; j++) y[i][j] += t[i][q] * c[q][j];
  }
}
