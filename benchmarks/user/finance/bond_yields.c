#include <math.h>
void kernel(const double (*restrict pay)[K], const double (*restrict when)[K], const signed char *restrict many,
            const double *restrict price, double *restrict rates, double *restrict duration) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    double paid = 0, rate = 0.05, worth, slope;
    for (int j = 0; j < many[i]; j++) paid += pay[i][j];
    for (int step = 0;; step++) {
      worth = slope = 0;
      for (int j = 0; j < many[i]; j++) {
        double v = pay[i][j] * exp(-rate * when[i][j]);
        worth += v, slope += v * when[i][j];
      }
      if (step == 5) break;
      rate += (worth - price[i] * paid) / slope;
    }
    rates[i] = rate, duration[i] = slope / worth;
  }
}
