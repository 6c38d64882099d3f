#include <math.h>
void kernel(const float (*restrict x)[T], float (*restrict y)[T]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float total = 0, top = -INFINITY;
    for (int j = 0; j < T; j++) {
      total += x[i][j];
      top = fmaxf(top, total);
      y[i][j] = top - total;
    }
  }
}
