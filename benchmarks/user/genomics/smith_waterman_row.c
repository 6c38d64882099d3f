void kernel(const short (*restrict above)[N + 1], const unsigned char (*restrict text)[N],
            const unsigned char *restrict letter, short (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    int left = -1000;
    for (int j = 0; j < N; j++) {
      int here = above[i][j] + (text[i][j] == letter[i] ? 2 : -1), gone = above[i][j + 1] - 3;
      here = here > gone ? here : gone;
      here = here > 0 ? here : 0;
      left = left - 3 > here ? left - 3 : here;
      y[i][j] = left;
    }
  }
}
