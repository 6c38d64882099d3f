void kernel(const double (*restrict x)[D][D], const double (*restrict y)[D][D], const double (*restrict z)[D][D],
            double (*restrict c)[D][D]) {
#pragma omp parallel for
  for (int e = 0; e < B; e++)
    for (int i = 0; i < D; i++) {
      double row[D];
      for (int j = 0; j < D; j++) row[j] = z[e][i][j];
      for (int l = 0; l < D; l++)
        for (int j = 0; j < D; j++) row[j] += x[e][i][l] * y[e][l][j];
      for (int j = 0; j < D; j++) c[e][i][j] = row[j];
    }
}
