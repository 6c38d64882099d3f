void kernel(const short (*restrict x)[(M + 2) * R + 1], int (*restrict y)[M]) {
#pragma omp parallel for
  for (int a = 0; a < C; a++) {
    unsigned one = x[a][0], two = one, three = one, p = three, dp = 0, ddp = 0;
    for (int j = 1; j < M + 3; j++) {
      for (int k = 0; k < R; k++) {
        one += x[a][(j - 1) * R + 1 + k];
        two += one;
        three += two;
      }
      unsigned d = three - p, dd = d - dp, ddd = dd - ddp;
      if (j >= 3) y[a][j - 3] = ddd;
      p = three, dp = d, ddp = dd;
    }
  }
}
