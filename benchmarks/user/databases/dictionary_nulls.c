void kernel(const unsigned short *restrict code, const double *restrict table, const unsigned char *restrict there,
            double *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double v = table[code[i]];
    y[i] = v * (there[i / 8] >> (i % 8) & 1);
  }
}
