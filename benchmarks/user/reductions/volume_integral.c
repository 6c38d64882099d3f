void kernel(const float (*restrict x)[H][W], float (*restrict y)[H][W]) {
#pragma omp parallel for
  for (int k = 0; k < D; k++)
    for (int i = 0; i < H; i++) {
      float row = 0;
      for (int j = 0; j < W; j++) y[k][i][j] = row += x[k][i][j];
      if (i)
        for (int j = 0; j < W; j++) y[k][i][j] += y[k][i - 1][j];
    }
  for (int k = 1; k < D; k++)
    for (int i = 0; i < H; i++)
      for (int j = 0; j < W; j++) y[k][i][j] += y[k - 1][i][j];
}
