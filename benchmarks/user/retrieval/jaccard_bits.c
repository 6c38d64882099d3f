void kernel(const unsigned long (*restrict a)[W], const unsigned long (*restrict b)[W], float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int both = 0, any = 0;
      for (int k = 0; k < W; k++) {
        both += __builtin_popcountl(a[i][k] & b[j][k]);
        any += __builtin_popcountl(a[i][k] | b[j][k]);
      }
      y[i][j] = (float)both / (any > 1 ? any : 1);
    }
}
