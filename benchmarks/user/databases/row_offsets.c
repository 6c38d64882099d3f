void kernel(const int (*restrict x)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0, total = 0; j < W; j++) {
      y[i][j] = total;
      total += x[i][j];
    }
}
