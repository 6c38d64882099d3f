void kernel(const float *restrict a, const float *restrict b, float *restrict y) {
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++) {
      int e = i*N+j;
      y[e] = j < N/3 ? a[e]*b[e] : j < 2*N/3 ? a[e]-b[e] : a[e];
    }
}
