#include <math.h>
void kernel(const double (*restrict x)[8 * L], const unsigned char (*restrict bits)[L], int *restrict many, double *restrict sum,
            double *restrict least, double *restrict largest) {
#pragma omp parallel for
  for (int c = 0; c < N; c++) {
    int count = 0;
    double total = 0, low = INFINITY, high = -INFINITY;
    for (int k = 0; k < L; k++)
      for (int b = 0; b < 8; b++)
        if (bits[c][k] >> b & 1) {
          double v = x[c][8 * k + b];
          count++;
          total += v;
          low = v < low ? v : low;
          high = v > high ? v : high;
        }
    many[c] = count, sum[c] = total, least[c] = low, largest[c] = high;
  }
}
