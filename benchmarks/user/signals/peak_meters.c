#include <math.h>
void kernel(const short (*restrict x)[F * S][2], float (*restrict level)[F][2], int (*restrict clipped)[2]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    float left = 0, right = 0;
    int l = 0, r = 0;
    for (int k = 0; k < F; k++) {
      for (int t = k * S; t < k * S + S; t++) {
        left = fmaxf(left * 0.9995f, fabsf(x[i][t][0]));
        right = fmaxf(right * 0.9995f, fabsf(x[i][t][1]));
        l += x[i][t][0] > 32700 || x[i][t][0] < -32700;
        r += x[i][t][1] > 32700 || x[i][t][1] < -32700;
      }
      level[i][k][0] = left / 32768, level[i][k][1] = right / 32768;
    }
    clipped[i][0] = l, clipped[i][1] = r;
  }
}
