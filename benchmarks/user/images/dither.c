void kernel(const unsigned char (*restrict x)[W], const unsigned char (*restrict matrix)[8], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] = x[i][j] > matrix[i & 7][j & 7] ? 255 : 0;
}
