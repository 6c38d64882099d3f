void kernel(const float *restrict x, const float *restrict w, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float total = 0;
    for (int l = 0; l < K; l++) total += x[i + l] * w[l];
    y[i] = total;
  }
}
