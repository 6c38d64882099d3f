void kernel(const unsigned char (*restrict x)[N], const unsigned (*restrict table)[256], unsigned *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    unsigned crc = 0;
    for (int j = 0; j < N; j++) crc ^= table[j][x[i][j]];
    y[i] = crc;
  }
}
