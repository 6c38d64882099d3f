void kernel(const float (*restrict x)[N], float (*restrict y)[L]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float power = 0;
    for (int j = 0; j < N; j++) power += x[i][j] * x[i][j];
    for (int k = 0; k < L; k++) {
      float total = 0;
      for (int j = 0; j < N - k; j++) total += x[i][j] * x[i][j + k];
      y[i][k] = total / power;
    }
  }
}
