static float gx[H + 2][W + 2], gy[H + 2][W + 2];
void kernel(const float (*restrict x)[W + 4], float (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H + 2; i++)
    for (int j = 0; j < W + 2; j++) {
      gx[i][j] = x[i][j + 2] - x[i][j] + 2 * (x[i + 1][j + 2] - x[i + 1][j]) + x[i + 2][j + 2] - x[i + 2][j];
      gy[i][j] = x[i + 2][j] - x[i][j] + 2 * (x[i + 2][j + 1] - x[i][j + 1]) + x[i + 2][j + 2] - x[i][j + 2];
    }
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float xx = 0, xy = 0, yy = 0;
      for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
          float u = gx[i + a][j + b], v = gy[i + a][j + b];
          xx += u * u;
          xy += u * v;
          yy += v * v;
        }
      y[i][j] = xx * yy - xy * xy - 0.04f * (xx + yy) * (xx + yy);
    }
}
