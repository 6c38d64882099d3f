void kernel(const int (*restrict g)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int least = 1 << 30;
      for (int k = 0; k < W; k++) {
        int v = g[i][k] + (j - k) * (j - k);
        least = v < least ? v : least;
      }
      y[i][j] = least;
    }
}
