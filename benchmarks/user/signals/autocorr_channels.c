void kernel(const float (*restrict x)[C], float (*restrict y)[C]) {
#pragma omp parallel for
  for (int i = 0; i < L; i++) {
    float total[C] = {0};
    for (int t = 0; t < N - L; t++)
      for (int k = 0; k < C; k++) total[k] += x[t][k] * x[t + i][k];
    for (int k = 0; k < C; k++) y[i][k] = total[k] * (1.0f / N);
  }
}
