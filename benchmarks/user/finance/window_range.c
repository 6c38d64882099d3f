void kernel(const float *restrict x, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float hi = x[i], lo = x[i];
    for (int l = 1; l < K; l++) {
      hi = x[i + l] > hi ? x[i + l] : hi;
      lo = x[i + l] < lo ? x[i + l] : lo;
    }
    y[i] = hi - lo;
  }
}
