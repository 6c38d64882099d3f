#include <string.h>
void kernel(const int (*restrict word)[T], const int (*restrict doc)[P], const unsigned char (*restrict times)[P],
            const int *restrict many, const float *restrict rare, const unsigned char *restrict size,
            const float *restrict norm, float (*restrict y)[N]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) {
    memset(y[i], 0, sizeof y[i]);
    for (int k = 0; k < T; k++) {
      int w = word[i][k];
      for (int j = 0; j < many[w]; j++) {
        int at = doc[w][j];
        float often = times[w][j];
        y[i][at] += rare[w] * 2.2f * often / (often + norm[size[at]]);
      }
    }
  }
}
