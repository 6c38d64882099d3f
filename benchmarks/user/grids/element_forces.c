void kernel(const int (*restrict corner)[3], const double (*restrict k)[3][3], const double *restrict u, double *restrict y) {
  for (int i = 0; i < V; i++) y[i] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int e = 0; e < M; e++) {
    double a = u[corner[e][0]], b = u[corner[e][1]], c = u[corner[e][2]];
    for (int p = 0; p < 3; p++) y[corner[e][p]] += k[e][p][0] * a + k[e][p][1] * b + k[e][p][2] * c;
  }
}
