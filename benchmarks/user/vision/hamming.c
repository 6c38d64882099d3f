static void row(const unsigned *restrict a, const unsigned (*restrict b)[W], int *restrict y) {
  for (int j = 0; j < N; j++) {
    int total = 0;
    for (int k = 0; k < W; k++) total += __builtin_popcount(a[k] ^ b[j][k]);
    y[j] = total;
  }
}
void kernel(const unsigned (*restrict a)[W], const unsigned (*restrict b)[W], int (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(a[i], b, y[i]);
}
