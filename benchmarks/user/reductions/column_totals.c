void kernel(const float (*restrict x)[C], float *restrict y) {
  for (int j = 0; j < C; j++) y[j] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) y[j] += x[i][j];
}
