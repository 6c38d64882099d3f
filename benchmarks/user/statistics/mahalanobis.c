void kernel(const float (*restrict x)[D], const float *restrict mean, const float (*restrict inverse)[D],
            float *restrict y) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    float off[D], total = 0;
    for (int i = 0; i < D; i++) off[i] = x[e][i] - mean[i];
    for (int i = 0; i < D; i++) {
      float row = 0;
      for (int j = 0; j < D; j++) row += inverse[i][j] * off[j];
      total += off[i] * row;
    }
    y[e] = total;
  }
}
