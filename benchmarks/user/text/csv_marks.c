void kernel(const unsigned char (*restrict x)[64 * N], unsigned long long (*restrict marks)[N], int *restrict fields) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) {
    int quoted = 0, many = 0;
    for (int w = 0; w < N; w++) {
      unsigned long long bits = 0;
      for (int b = 0; b < 64; b++) {
        unsigned char v = x[i][64 * w + b];
        quoted ^= v == 34;
        unsigned long long mark = (v == 44 || v == 10) && !quoted;
        bits |= mark << b;
        many += mark;
      }
      marks[i][w] = bits;
    }
    fields[i] = many;
  }
}
