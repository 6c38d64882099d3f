static double line(const double *restrict x, const double *restrict w, double heard, double *restrict taps) {
  double guess = 0, power = 0;
  for (int p = 0; p < K; p++) {
    guess += w[p] * x[p];
    power += x[p] * x[p];
  }
  double left = heard - guess, by = 0.5 * left / (power + 1e-3);
  for (int p = 0; p < K; p++) taps[p] = w[p] + by * x[p];
  return left;
}
void kernel(const double (*restrict x)[K], const double (*restrict w)[K], const double *restrict heard, double *restrict left,
            double (*restrict taps)[K]) {
#pragma omp parallel for
  for (int i = 0; i < C; i++) left[i] = line(x[i], w[i], heard[i], taps[i]);
}
