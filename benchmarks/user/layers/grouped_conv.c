void kernel(const float (*restrict x)[C][2 * H + 1][2 * W + 1], const float (*restrict weight)[O][C][3][3],
            const float (*restrict bias)[O], float (*restrict y)[O][H][W]) {
#pragma omp parallel for collapse(2)
  for (int e = 0; e < G; e++)
    for (int f = 0; f < O; f++)
      for (int i = 0; i < H; i++) {
        float row[W];
        for (int j = 0; j < W; j++) row[j] = bias[e][f];
        for (int l = 0; l < C; l++)
          for (int p = 0; p < 3; p++)
            for (int j = 0; j < W; j++)
              row[j] += x[e][l][2 * i + p][2 * j] * weight[e][f][l][p][0] + x[e][l][2 * i + p][2 * j + 1] * weight[e][f][l][p][1] +
                        x[e][l][2 * i + p][2 * j + 2] * weight[e][f][l][p][2];
        for (int j = 0; j < W; j++) y[e][f][i][j] = row[j] > 0 ? row[j] : 0;
      }
}
