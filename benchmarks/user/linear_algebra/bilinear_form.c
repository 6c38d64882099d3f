void kernel(const float (*restrict x)[M], const float (*restrict w)[N],
            const float (*restrict z)[N], float *restrict y) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    float total = 0;
    for (int i = 0; i < M; i++) {
      float row = 0;
      for (int j = 0; j < N; j++) row += w[i][j] * z[e][j];
      total += x[e][i] * row;
    }
    y[e] = total;
  }
}
