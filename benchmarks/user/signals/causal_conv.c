void kernel(const float (*restrict x)[T], const float (*restrict w)[K], const float *restrict bias,
            float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) {
    for (int j = 0; j < K - 1; j++) {
      y[i][j] = bias[i];
      for (int l = 0; l <= j; l++) y[i][j] += w[i][l] * x[i][j - l];
    }
    for (int j = K - 1; j < T; j++) {
      float total = bias[i];
      for (int l = 0; l < K; l++) total += w[i][l] * x[i][j - l];
      y[i][j] = total;
    }
  }
}
