#include <limits.h>
static double meter(const int *restrict second, const int *restrict used, const unsigned char *restrict flags,
                    const double *restrict tariff, int *restrict total, int *restrict most, int *restrict count) {
  double cost = 0;
  for (int h = 0; h < 24; h++) total[h] = count[h] = 0, most[h] = INT_MIN;
  for (int k = 0; k < T; k++) {
    if (flags[k] > 4) continue;
    int h = second[k] / 3600;
    total[h] += used[k];
    most[h] = used[k] > most[h] ? used[k] : most[h];
    count[h]++;
    cost += used[k] * tariff[h];
  }
  return cost * 0.001;
}
void kernel(const int (*restrict second)[T], const int (*restrict used)[T], const unsigned char (*restrict flags)[T],
            const double *restrict tariff, int (*restrict total)[24], int (*restrict most)[24], int (*restrict count)[24],
            double *restrict cost) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) cost[i] = meter(second[i], used[i], flags[i], tariff, total[i], most[i], count[i]);
}
