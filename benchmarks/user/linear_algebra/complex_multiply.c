void kernel(const float (*restrict a)[2], const float (*restrict b)[2], float (*restrict y)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    y[i][0] = a[i][0] * b[i][0] - a[i][1] * b[i][1];
    y[i][1] = a[i][0] * b[i][1] + a[i][1] * b[i][0];
  }
}
