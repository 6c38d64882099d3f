void kernel(const float (*restrict x)[N], float (*restrict y)[N], int *restrict many) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int at = 0;
    for (int j = 0; j < N; j++)
      if (x[i][j] > 0) y[i][at++] = x[i][j];
    many[i] = at;
    for (int j = at; j < N; j++) y[i][j] = 0;
  }
}
