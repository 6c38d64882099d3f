#include <math.h>
void kernel(const short (*restrict echo)[T], float (*restrict y)[X]) {
#pragma omp parallel for
  for (int i = 0; i < Z; i++)
    for (int j = 0; j < X; j++) {
      float total = 0, deep = 40 + 4 * i;
      int count = 1;
      for (int e = 0; e < C; e++) {
        int aside = 4 * j - 8 * e;
        if (2 * __builtin_abs(aside) > 40 + 4 * i) continue;
        float delay = deep + sqrtf(deep * deep + (float)aside * aside);
        int at = delay < T - 2 ? (int)delay : T - 2;
        total += echo[e][at] + (delay - at) * (echo[e][at + 1] - echo[e][at]);
        count++;
      }
      y[i][j] = total / count;
    }
}
