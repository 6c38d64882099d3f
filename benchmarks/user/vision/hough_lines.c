void kernel(const short (*restrict at)[2], const short (*restrict turn)[2], int (*restrict votes)[R]) {
#pragma omp parallel for
  for (int k = 0; k < T; k++) {
    for (int b = 0; b < R; b++) votes[k][b] = 0;
    int c = turn[k][0], s = turn[k][1];
    for (int i = 0; i < N; i++) {
      int p = ((at[i][0] * c + at[i][1] * s) >> 11) + R / 2;
      votes[k][p < 0 ? 0 : p > R - 1 ? R - 1 : p]++;
    }
  }
}
