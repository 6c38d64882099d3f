void kernel(const float (*restrict x)[H][D], const float (*restrict co)[D / 2],
            const float (*restrict si)[D / 2], float (*restrict y)[H][D]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++)
    for (int c = 0; c < H; c++)
      for (int j = 0; j < D / 2; j++) {
        float a = x[i][c][2 * j], b = x[i][c][2 * j + 1];
        y[i][c][2 * j] = a * co[i][j] - b * si[i][j];
        y[i][c][2 * j + 1] = b * co[i][j] + a * si[i][j];
      }
}
