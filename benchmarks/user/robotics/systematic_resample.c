#include <math.h>
void kernel(const double (*restrict w)[N], const double *restrict u, int (*restrict times)[N], double *restrict count) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double total = 0, square = 0, upto = 0;
    for (int j = 0; j < N; j++) {
      total += w[i][j];
      square += w[i][j] * w[i][j];
    }
    for (int j = 0, drawn = 0; j < N; j++) {
      upto += w[i][j];
      int last = (int)ceil(upto / total * N - u[i]);
      times[i][j] = last - drawn;
      drawn = last;
    }
    count[i] = total * total / square;
  }
}
