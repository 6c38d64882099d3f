void kernel(const unsigned char (*restrict x)[2 * W - 1][3], const unsigned short *restrict light, const unsigned char *restrict back,
            unsigned char (*restrict y)[W][3]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    const unsigned char (*restrict a)[3] = x[2 * i], (*restrict b)[3] = x[i < H - 1 ? 2 * i + 1 : 2 * i];
    for (int j = 0; j < W; j++) {
      int p = 2 * j, q = j < W - 1 ? p + 1 : p;
      for (int c = 0; c < 3; c++) y[i][j][c] = back[light[a[p][c]] + light[a[q][c]] + light[b[p][c]] + light[b[q][c]] + 2 >> 2];
    }
  }
}
