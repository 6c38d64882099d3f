#include <math.h>
void kernel(const int *restrict key, const double *restrict v, double *restrict total, double *restrict least,
            double *restrict most, int *restrict count) {
  for (int k = 0; k < G; k++) total[k] = 0, least[k] = INFINITY, most[k] = -INFINITY, count[k] = 0;
#pragma omp parallel for reduction(+ : total[:G], count[:G]) reduction(min : least[:G]) reduction(max : most[:G])
  for (int i = 0; i < N; i++) {
    int k = key[i];
    total[k] += v[i];
    least[k] = v[i] < least[k] ? v[i] : least[k];
    most[k] = v[i] > most[k] ? v[i] : most[k];
    count[k]++;
  }
}
