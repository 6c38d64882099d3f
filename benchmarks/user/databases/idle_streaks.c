void kernel(const unsigned char (*restrict busy)[N], short (*restrict rested)[N], int *restrict longest, int *restrict ended,
            int *restrict open, int *restrict weeks) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    int run = 0, most = 0, place = 0, many = 0;
    for (int t = 0; t < N; t++) {
      run = busy[i][t] ? 0 : run + 1;
      rested[i][t] = run;
      if (run > most) most = run, place = t;
      many += run == 7;
    }
    longest[i] = most, ended[i] = place, open[i] = run, weeks[i] = many;
  }
}
