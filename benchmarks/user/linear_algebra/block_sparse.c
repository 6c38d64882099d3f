void kernel(const float (*restrict a)[L][4][4], const float *restrict x, const int (*restrict column)[L], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < R; i++) {
    float total[4] = {0};
    for (int k = 0; k < L; k++)
      for (int p = 0; p < 4; p++)
        for (int q = 0; q < 4; q++) total[p] += a[i][k][p][q] * x[column[i][k] * 4 + q];
    for (int p = 0; p < 4; p++) y[i * 4 + p] = total[p];
  }
}
