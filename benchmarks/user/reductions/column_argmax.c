void kernel(const float (*restrict x)[C], int *restrict y) {
  float top[C];
  for (int j = 0; j < C; j++) top[j] = x[0][j], y[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < C; j++)
      if (x[i][j] > top[j]) top[j] = x[i][j], y[j] = i;
}
