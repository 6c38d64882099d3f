void kernel(const unsigned char (*restrict x)[W + 2], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      unsigned char hi = 0, lo = 255;
      for (int p = 0; p < 3; p++)
        for (int q = 0; q < 3; q++) {
          hi = x[i + p][j + q] > hi ? x[i + p][j + q] : hi;
          lo = x[i + p][j + q] < lo ? x[i + p][j + q] : lo;
        }
      y[i][j] = hi - lo;
    }
}
