void kernel(const float (*restrict x)[W + K - 1], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float top = x[i][j];
      for (int p = 0; p < K; p++)
        for (int q = 0; q < K; q++) top = x[i + p][j + q] > top ? x[i + p][j + q] : top;
      y[i][j] = top;
    }
}
