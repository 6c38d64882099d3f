void kernel(const double (*restrict u)[W], const double (*restrict b)[W], double (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i][j] = i > 0 && i < H - 1 && j > 0 && j < W - 1 && (i + j) % 2 == 0
                    ? 0.25 * (u[i - 1][j] + u[i + 1][j] + u[i][j - 1] + u[i][j + 1] - b[i][j])
                    : u[i][j];
}
