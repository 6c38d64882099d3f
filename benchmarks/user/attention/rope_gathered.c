void kernel(const _Float16 (*restrict x)[H][D], const int *restrict pos, const float (*restrict co)[D / 2],
            const float (*restrict si)[D / 2], _Float16 (*restrict y)[H][D]) {
#pragma omp parallel for
  for (int i = 0; i < T; i++)
    for (int a = 0; a < H; a++)
      for (int j = 0; j < D / 2; j++) {
        float left = x[i][a][2 * j], right = x[i][a][2 * j + 1], c = co[pos[i]][j], s = si[pos[i]][j];
        y[i][a][2 * j] = left * c - right * s;
        y[i][a][2 * j + 1] = left * s + right * c;
      }
}
