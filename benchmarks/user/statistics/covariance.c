void kernel(const float (*restrict x)[D], float (*restrict y)[D]) {
  float mean[D] = {0};
  for (int k = 0; k < N; k++)
    for (int j = 0; j < D; j++) mean[j] += x[k][j];
  for (int j = 0; j < D; j++) mean[j] /= N;
#pragma omp parallel for
  for (int i = 0; i < D; i++) {
    float total[D] = {0};
    for (int k = 0; k < N; k++) {
      float off = x[k][i] - mean[i];
      for (int j = 0; j < D; j++) total[j] += off * (x[k][j] - mean[j]);
    }
    for (int j = 0; j < D; j++) y[i][j] = total[j] / (N - 1);
  }
}
