void kernel(const unsigned char (*restrict x)[W][3], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) y[i][j] = (x[i][j][0] * 77 + x[i][j][1] * 150 + x[i][j][2] * 29 + 128) >> 8;
}
