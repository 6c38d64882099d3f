void kernel(const float *restrict x, const float *restrict table, const unsigned char (*restrict w)[K / 2],
            const _Float16 (*restrict scale)[K / G], float *restrict y) {
#pragma omp parallel for
  for (int j = 0; j < N; j++) {
    float acc = 0;
    for (int b = 0; b < K / G; b++) {
      float part = 0;
      for (int l = b * G / 2; l < (b + 1) * G / 2; l++)
        part += x[2 * l] * table[w[j][l] & 15] + x[2 * l + 1] * table[w[j][l] >> 4];
      acc += part * (float)scale[j][b];
    }
    y[j] = acc;
  }
}
