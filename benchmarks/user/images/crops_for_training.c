void kernel(const unsigned char (*restrict x)[H][W][3], const int *restrict top, const int *restrict left,
            const unsigned char *restrict mirror, const float *restrict mean, const float *restrict spread, float (*restrict y)[3][S][S]) {
#pragma omp parallel for
  for (int n = 0; n < B; n++)
    for (int c = 0; c < 3; c++) {
      float scale = 1 / (255 * spread[c]), shift = -mean[c] / spread[c];
      for (int i = 0; i < S; i++) {
        const unsigned char (*restrict from)[3] = x[n][top[n] + i] + left[n];
        float *restrict to = y[n][c][i];
        if (mirror[n])
          for (int j = 0; j < S; j++) to[j] = from[S - 1 - j][c] * scale + shift;
        else
          for (int j = 0; j < S; j++) to[j] = from[j][c] * scale + shift;
      }
    }
}
