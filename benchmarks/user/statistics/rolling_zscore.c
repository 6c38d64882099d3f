#include <math.h>
void kernel(const double (*restrict x)[N], double (*restrict y)[N - W]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) {
    double one = 0, two = 0;
    for (int t = 0; t < W; t++) {
      one += x[i][t];
      two += x[i][t] * x[i][t];
    }
    for (int t = 0; t < N - W; t++) {
      double in = x[i][t + W], out = x[i][t];
      one += in - out;
      two += in * in - out * out;
      double mean = one / W, var = two / W - mean * mean;
      y[i][t] = (in - mean) / sqrt(var > 1e-12 ? var : 1e-12);
    }
  }
}
