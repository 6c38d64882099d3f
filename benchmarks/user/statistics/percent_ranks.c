void kernel(const short *restrict x, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    int twice = 0;
    for (int j = 0; j < N; j++) twice += (x[j] < x[i]) + (x[j] <= x[i]);
    y[i] = twice * (0.5f / N);
  }
}
