static void some(const float *restrict x, const float *restrict w, float *restrict y, int begin, int end) {
  for (int i = begin; i < end; i++) {
    float total = 0;
    for (int l = 0; l < K; l++) total += x[4 * i + l] * w[l];
    y[i] = total;
  }
}
void kernel(const float *restrict x, const float *restrict w, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < N; i += 64) some(x, w, y, i, i + 64 < N ? i + 64 : N);
}
