void kernel(const float (*restrict x)[D], const float (*restrict centre)[D], int *restrict y) {
  float norm[K];
  for (int c = 0; c < K; c++) {
    norm[c] = 0;
    for (int e = 0; e < D; e++) norm[c] += centre[c][e] * centre[c][e];
  }
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float least = 1e30f;
    int at = 0;
    for (int c = 0; c < K; c++) {
      float dot = 0;
      for (int e = 0; e < D; e++) dot += x[i][e] * centre[c][e];
      float far = norm[c] - 2 * dot;
      if (far < least) {
        least = far;
        at = c;
      }
    }
    y[i] = at;
  }
}
