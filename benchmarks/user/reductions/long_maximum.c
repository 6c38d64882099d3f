void kernel(const float *restrict x, float *restrict y) {
  float top = x[0];
  for (int i = 0; i < N; i++) {
    top = top > x[i] ? top : x[i];
    y[i] = (top + x[i]) * 0.5f;
  }
}
