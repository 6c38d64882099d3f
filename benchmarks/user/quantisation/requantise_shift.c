static void row(const int *restrict acc, const int *restrict by, const int *restrict shift, signed char *restrict y) {
  for (int j = 0; j < C; j++) {
    int low = ((long long)acc[j] * by[j] + (1 << 30)) >> 31;
    int v = ((low + (1 << (shift[j] - 1))) >> shift[j]) - 3;
    y[j] = v < -128 ? -128 : v > 127 ? 127 : v;
  }
}
void kernel(const int (*restrict acc)[C], const int *restrict by, const int *restrict shift, signed char (*restrict y)[C]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) row(acc[i], by, shift, y[i]);
}
