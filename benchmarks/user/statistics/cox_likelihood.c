#include <math.h>
void kernel(const double (*restrict score)[B], const unsigned char *restrict event, double *restrict y) {
  double risk[B];
  for (int m = 0; m < B; m++) risk[m] = y[m] = 0;
  for (int k = T - 1; k >= 0; k--) {
    for (int m = 0; m < B; m++) risk[m] += exp(score[k][m]);
    if (event[k])
      for (int m = 0; m < B; m++) y[m] += score[k][m] - log(risk[m]);
  }
}
