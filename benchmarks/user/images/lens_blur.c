void kernel(const float (*restrict x)[W], const unsigned char (*restrict radius)[W], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int r = radius[i][j], a = i - r > 0 ? i - r : 0, b = i + r < H - 1 ? i + r : H - 1;
      int c = j - r > 0 ? j - r : 0, d = j + r < W - 1 ? j + r : W - 1;
      float total = 0;
      for (int p = a; p <= b; p++)
        for (int q = c; q <= d; q++) total += x[p][q];
      y[i][j] = total / ((b - a + 1) * (d - c + 1));
    }
}
