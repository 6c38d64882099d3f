#include <math.h>
void kernel(const double (*restrict x)[M], const double *restrict t, double *restrict y) {
  double mean[M], cross[M], spread[M], middle = 0, wide = 0;
  for (int j = 0; j < M; j++) mean[j] = cross[j] = spread[j] = 0;
  for (int i = 0; i < N; i++) {
    middle += t[i];
    for (int j = 0; j < M; j++) mean[j] += x[i][j];
  }
  middle /= N;
  for (int j = 0; j < M; j++) mean[j] /= N;
  for (int i = 0; i < N; i++) {
    double e = t[i] - middle;
    wide += e * e;
    for (int j = 0; j < M; j++) {
      double d = x[i][j] - mean[j];
      cross[j] += d * e, spread[j] += d * d;
    }
  }
  for (int j = 0; j < M; j++) y[j] = cross[j] / sqrt(spread[j] * wide);
}
