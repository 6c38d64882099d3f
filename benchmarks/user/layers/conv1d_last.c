void kernel(const float (*restrict x)[I], const float (*restrict w)[I][O], const float *restrict bias, float (*restrict y)[O]) {
#pragma omp parallel for
  for (int a = 0; a < T; a++) {
    float row[O];
    for (int b = 0; b < O; b++) row[b] = bias[b];
    for (int c = 0; c < K; c++)
      for (int d = 0; d < I; d++)
        for (int b = 0; b < O; b++) row[b] += x[a + c][d] * w[c][d][b];
    for (int b = 0; b < O; b++) y[a][b] = row[b] > 0 ? row[b] : 0;
  }
}
