#include <math.h>
void kernel(const float (*restrict x)[E], int (*restrict which)[2], float (*restrict share)[2]) {
#pragma omp parallel for
  for (int i = 0; i < N; i++) {
    float first = -INFINITY, second = -INFINITY;
    int at = 0, at2 = 0;
    for (int a = 0; a < E; a++)
      if (x[i][a] > first) {
        second = first, at2 = at;
        first = x[i][a], at = a;
      } else if (x[i][a] > second) {
        second = x[i][a], at2 = a;
      }
    which[i][0] = at, which[i][1] = at2;
    share[i][0] = 1 / (1 + expf(second - first));
    share[i][1] = 1 - share[i][0];
  }
}
