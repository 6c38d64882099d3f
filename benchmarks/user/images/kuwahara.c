void kernel(const unsigned char (*restrict x)[W + 6], unsigned char (*restrict y)[W]) {
  static int once[H + 3][W + 3], spread[H + 3][W + 3];
#pragma omp parallel for
  for (int i = 0; i < H + 3; i++) {
    int a[W + 6], b[W + 6];
    for (int j = 0; j < W + 6; j++) {
      int p = x[i][j], q = x[i + 1][j], r = x[i + 2][j], s = x[i + 3][j];
      a[j] = p + q + r + s, b[j] = p * p + q * q + r * r + s * s;
    }
    for (int j = 0; j < W + 3; j++) {
      int sum = a[j] + a[j + 1] + a[j + 2] + a[j + 3];
      once[i][j] = sum, spread[i][j] = 16 * (b[j] + b[j + 1] + b[j + 2] + b[j + 3]) - sum * sum;
    }
  }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int least = spread[i][j], sum = once[i][j];
      sum = spread[i][j + 3] < least ? once[i][j + 3] : sum, least = spread[i][j + 3] < least ? spread[i][j + 3] : least;
      sum = spread[i + 3][j] < least ? once[i + 3][j] : sum, least = spread[i + 3][j] < least ? spread[i + 3][j] : least;
      sum = spread[i + 3][j + 3] < least ? once[i + 3][j + 3] : sum;
      y[i][j] = (sum + 8) >> 4;
    }
}
