void kernel(const int (*restrict above)[N + 1], const unsigned char (*restrict text)[N],
            const unsigned char *restrict letter, int (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int left = above[i][0] + 1;
    for (int j = 0; j < N; j++) {
      int change = above[i][j] + (text[i][j] != letter[i]), gone = above[i][j + 1] + 1;
      int best = change < gone ? change : gone;
      left = left + 1 < best ? left + 1 : best;
      y[i][j] = left;
    }
  }
}
