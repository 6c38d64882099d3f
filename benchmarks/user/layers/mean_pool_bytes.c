void kernel(const signed char (*restrict x)[2 * W][C], signed char (*restrict y)[W][C]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int l = 0; l < C; l++)
        y[i][j][l] = (x[2 * i][2 * j][l] + x[2 * i][2 * j + 1][l] + x[2 * i + 1][2 * j][l] + x[2 * i + 1][2 * j + 1][l] + 2) >> 2;
}
