void kernel(const int (*restrict total)[W + 1], const short *restrict x, const short *restrict y, const short *restrict wide,
            const short *restrict high, float *restrict f) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int step = wide[i], rows = high[i];
    const int *t = &total[y[i]][x[i]], *b = t + rows * (W + 1);
    int differ = 2 * (b[step] - t[step]) - (b[0] - t[0]) - (b[2 * step] - t[2 * step]);
    f[i] = (float)differ / (step * rows);
  }
}
