#include <math.h>
void kernel(const unsigned char (*restrict seen)[T], const double *restrict start, const double (*restrict turn)[2],
            const double (*restrict emit)[4], double (*restrict second)[T], double *restrict likely) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    double p = start[0], q = start[1], total = 0;
    for (int j = 0; j < T; j++) {
      double a = (p * turn[0][0] + q * turn[1][0]) * emit[0][seen[i][j]], b = (p * turn[0][1] + q * turn[1][1]) * emit[1][seen[i][j]];
      total += log(a + b);
      p = a / (a + b);
      second[i][j] = q = b / (a + b);
    }
    likely[i] = total;
  }
}
