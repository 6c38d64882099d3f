#include <math.h>
void kernel(const float (*restrict x)[V], const int (*restrict at)[L], float *restrict y) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float top = x[i][at[i][0]], total = 0;
    for (int k = 1; k < L; k++) top = fmaxf(top, x[i][at[i][k]]);
    for (int k = 0; k < L; k++) total += expf(x[i][at[i][k]] - top);
    y[i] = top + logf(total);
  }
}
