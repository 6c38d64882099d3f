void kernel(const float (*restrict p)[L][T], const float (*restrict a)[L][2], float (*restrict y)[M][2]) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float re[T] = {0}, im[T] = {0};
    for (int k = 0; k < L; k++)
      for (int j = 0; j < T; j++) {
        re[j] += p[i][k][j] * a[i][k][0];
        im[j] += p[i][k][j] * a[i][k][1];
      }
    for (int j = 0; j < T; j++) y[j][i][0] = re[j], y[j][i][1] = im[j];
  }
}
