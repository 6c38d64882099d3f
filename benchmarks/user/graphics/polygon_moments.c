void kernel(const double (*restrict x)[K][2], double *restrict area, double (*restrict moment)[2], int *restrict reflex) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double a = 0, mx = 0, my = 0;
    int right = 0;
    for (int j = 0; j < K; j++) {
      const double *p = x[i][j], *q = x[i][j + 1 < K ? j + 1 : 0], *r = x[i][j + 2 < K ? j + 2 : j + 2 - K];
      double c = p[0] * q[1] - q[0] * p[1];
      a += c, mx += (p[0] + q[0]) * c, my += (p[1] + q[1]) * c;
      right += (q[0] - p[0]) * (r[1] - q[1]) - (q[1] - p[1]) * (r[0] - q[0]) < 0;
    }
    area[i] = a / 2, moment[i][0] = mx / 6, moment[i][1] = my / 6, reflex[i] = right;
  }
}
