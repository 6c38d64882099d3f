void kernel(const float (*restrict x)[H][W], const float (*restrict weight)[O][4][4], const float *restrict bias,
            float (*restrict y)[2 * H][2 * W]) {
#pragma omp parallel for
  for (int k = 0; k < O; k++) {
    for (int r = 0; r < 2 * H; r++)
      for (int s = 0; s < 2 * W; s++) y[k][r][s] = bias[k];
    for (int e = 0; e < C; e++)
      for (int i = 0; i < H; i++)
        for (int p = 0; p < 4; p++) {
          int r = 2 * i + p - 1;
          if (r < 0 || r >= 2 * H) continue;
          for (int j = 0; j < W; j++)
            for (int q = 0; q < 4; q++) {
              int s = 2 * j + q - 1;
              if (s >= 0 && s < 2 * W) y[k][r][s] += x[e][i][j] * weight[e][k][p][q];
            }
        }
  }
}
