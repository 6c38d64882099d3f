void kernel(const unsigned char (*restrict x)[N], unsigned *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    unsigned one = 1, two = N;
    for (int j = 0; j < N; j++) {
      one += x[i][j];
      two += x[i][j] * (unsigned)(N - j);
    }
    y[i] = two % 65521 << 16 | one % 65521;
  }
}
