void kernel(const double (*restrict a)[D][D], const double (*restrict s)[D][D], double (*restrict y)[D][D]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++) {
    double half[D][D] = {0};
    for (int i = 0; i < D; i++)
      for (int j = 0; j < D; j++)
        for (int k = 0; k < D; k++) half[i][k] += a[e][i][j] * s[e][j][k];
    for (int i = 0; i < D; i++)
      for (int l = 0; l < D; l++) {
        double total = 0;
        for (int k = 0; k < D; k++) total += half[i][k] * a[e][l][k];
        y[e][i][l] = total;
      }
  }
}
