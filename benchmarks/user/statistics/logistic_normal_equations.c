#include <math.h>
void kernel(const double (*restrict x)[D], const double *restrict w, const signed char *restrict y, double (*restrict hessian)[D],
            double *restrict gradient, double *restrict likely) {
  double h[D][D] = {0}, g[D] = {0}, l = 0;
#pragma omp parallel for reduction(+ : h, g, l)
  for (int i = 0; i < N; i++) {
    double eta = 0;
    for (int c = 0; c < D; c++) eta += x[i][c] * w[c];
    double mu = 1 / (1 + exp(-eta)), s = mu * (1 - mu);
    l += y[i] * eta - (eta > 0 ? eta : 0) - log1p(exp(-fabs(eta)));
    for (int p = 0; p < D; p++) {
      g[p] += (y[i] - mu) * x[i][p];
      for (int q = 0; q < D; q++) h[p][q] += s * x[i][p] * x[i][q];
    }
  }
  for (int p = 0; p < D; p++) {
    gradient[p] = g[p];
    for (int q = 0; q < D; q++) hessian[p][q] = h[p][q];
  }
  *likely = l;
}
