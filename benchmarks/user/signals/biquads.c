void kernel(const float (*restrict x)[T], const float *restrict a, const float *restrict c, float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float p = 0, q = 0;
    for (int j = 0; j < T; j++) {
      float now = x[i][j] + a[i] * p + c[i] * q;
      q = p;
      y[i][j] = p = now;
    }
  }
}
