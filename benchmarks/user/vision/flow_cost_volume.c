void kernel(const float (*restrict a)[W][C], const float (*restrict b)[W + P - 1][C], _Float16 (*restrict y)[W][P][P]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      for (int u = 0; u < P; u++)
        for (int v = 0; v < P; v++) {
          float fit = 0;
          for (int k = 0; k < C; k++) fit += a[i][j][k] * b[i + u][j + v][k];
          y[i][j][u][v] = fit * (1.0f / C);
        }
}
