void kernel(const double (*restrict psi)[2], const int *restrict flip, const int *restrict sign, double *restrict y) {
#pragma omp parallel for
  for (int k = 0; k < P; k++) {
    double re = 0, im = 0;
    for (int i = 0; i < 1 << QUBITS; i++) {
      const double *a = psi[i], *b = psi[i ^ flip[k]];
      double s = __builtin_popcount(i & sign[k]) & 1 ? -1 : 1;
      re += s * (a[0] * b[0] + a[1] * b[1]);
      im += s * (a[1] * b[0] - a[0] * b[1]);
    }
    int turn = __builtin_popcount(flip[k] & sign[k]) & 3;
    y[k] = turn == 0 ? re : turn == 1 ? im : turn == 2 ? -re : -im;
  }
}
