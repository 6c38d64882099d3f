void kernel(const float *restrict x, float *restrict y) {
  float total = 0;
  for (int i = 0; i < N; i++) y[i] = total += x[i];
}
