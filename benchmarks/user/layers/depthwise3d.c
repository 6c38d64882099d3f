void kernel(const float (*restrict x)[D + 2][H + 2][W + 2], const float (*restrict weight)[3][3][3],
            const float *restrict bias, float (*restrict y)[D][H][W]) {
#pragma omp parallel for
  for (int l = 0; l < C; l++)
    for (int k = 0; k < D; k++)
      for (int i = 0; i < H; i++)
        for (int j = 0; j < W; j++) {
          float total = bias[l];
          for (int p = 0; p < 3; p++)
            for (int q = 0; q < 3; q++)
              for (int r = 0; r < 3; r++) total += x[l][k + p][i + q][j + r] * weight[l][p][q][r];
          y[l][k][i][j] = total;
        }
}
