void kernel(const unsigned (*restrict word)[L], const int *restrict many, const unsigned *restrict a, const unsigned *restrict b,
            unsigned (*restrict signature)[4 * K], unsigned (*restrict bands)[K]) {
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    unsigned *least = signature[i];
    for (int h = 0; h < 4 * K; h++) least[h] = ~0u;
    for (int j = 0; j < many[i]; j++)
      for (int h = 0; h < 4 * K; h++) {
        unsigned v = word[i][j] * (a[h] | 1) + b[h];
        least[h] = v < least[h] ? v : least[h];
      }
    for (int g = 0; g < K; g++) {
      unsigned v = least[4 * g];
      for (int e = 1; e < 4; e++) v = v * 31 + least[4 * g + e];
      bands[i][g] = v ^ v >> 15;
    }
  }
}
