void kernel(const float (*restrict x)[N], float (*restrict y)[N]) {
  float top[N];
  for (int j = 0; j < N; j++) top[j] = x[0][j];
  for (int i = 0; i < T; i++)
    for (int j = 0; j < N; j++) {
      top[j] = top[j] > x[i][j] ? top[j] : x[i][j];
      y[i][j] = top[j] - x[i][j];
    }
}
