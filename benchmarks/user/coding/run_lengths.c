void kernel(const unsigned char (*restrict x)[W], int (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    int run = 0;
    for (int j = 0; j < W; j++) y[i][j] = run = j && x[i][j] == x[i][j - 1] ? run + 1 : 1;
  }
}
