static float ab[I][K], cd[K][M];
void kernel(const float (*restrict a)[J], const float (*restrict b)[K], const float (*restrict c)[L],
            const float (*restrict d)[M], float (*restrict y)[M]) {
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    for (int r = 0; r < K; r++) ab[p][r] = 0;
    for (int q = 0; q < J; q++)
      for (int r = 0; r < K; r++) ab[p][r] += a[p][q] * b[q][r];
  }
#pragma omp parallel for
  for (int r = 0; r < K; r++) {
    for (int t = 0; t < M; t++) cd[r][t] = 0;
    for (int s = 0; s < L; s++)
      for (int t = 0; t < M; t++) cd[r][t] += c[r][s] * d[s][t];
  }
#pragma omp parallel for
  for (int p = 0; p < I; p++) {
    for (int t = 0; t < M; t++) y[p][t] = 0;
    for (int r = 0; r < K; r++)
      for (int t = 0; t < M; t++) y[p][t] += ab[p][r] * cd[r][t];
  }
}
