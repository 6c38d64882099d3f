void kernel(const short *restrict x, unsigned char *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int size = x[i] < 0 ? -x[i] : x[i];
    size = (size < 32635 ? size : 32635) + 132;
    int power = 31 - __builtin_clz(size) - 7;
    y[i] = ~((x[i] < 0) << 7 | power << 4 | (size >> (power + 3) & 15));
  }
}
