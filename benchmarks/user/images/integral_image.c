void kernel(const unsigned char (*restrict x)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0, row = 0; j < W; j++) y[i][j] = row += x[i][j];
  for (int i = 1; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] += y[i - 1][j];
}
