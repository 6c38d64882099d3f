static void some(const float *restrict x, const float *restrict window, float *restrict y, int begin, int end) {
  for (int i = begin; i < end; i++) {
    float power = 0;
    for (int j = 0; j < N; j++) {
      float v = x[i * K + j] * window[j];
      power += v * v;
    }
    y[i] = power / N;
  }
}
void kernel(const float *restrict x, const float *restrict window, float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < S; i += 64) some(x, window, y, i, i + 64 < S ? i + 64 : S);
}
