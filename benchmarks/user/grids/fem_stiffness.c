void kernel(const int (*restrict corner)[3], const double (*restrict k)[6], const double *restrict u, double *restrict y) {
  for (int i = 0; i < V; i++) y[i] = 0;
#pragma omp parallel for reduction(+ : y[:V])
  for (int e = 0; e < M; e++) {
    int p = corner[e][0], q = corner[e][1], r = corner[e][2];
    double a = u[p], b = u[q], c = u[r];
    y[p] += k[e][0] * a + k[e][1] * b + k[e][2] * c;
    y[q] += k[e][1] * a + k[e][3] * b + k[e][4] * c;
    y[r] += k[e][2] * a + k[e][4] * b + k[e][5] * c;
  }
}
