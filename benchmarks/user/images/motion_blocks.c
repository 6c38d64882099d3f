#include <stdlib.h>
void kernel(const unsigned char (*restrict x)[16 * Q], const unsigned short (*restrict mean)[16 * Q], unsigned short (*restrict new)[16 * Q],
            unsigned char (*restrict mask)[16 * Q], int (*restrict many)[Q]) {
#pragma omp parallel for
  for (int k = 0; k < P; k++) {
    for (int l = 0; l < Q; l++) many[k][l] = 0;
    for (int i = 16 * k; i < 16 * k + 16; i++) {
#pragma omp simd
      for (int j = 0; j < 16 * Q; j++) {
        int old = mean[i][j];
        new[i][j] = old + ((x[i][j] << 8) - old >> 4);
        mask[i][j] = abs(x[i][j] - (old >> 8)) > 90 ? 255 : 0;
      }
      for (int l = 0; l < Q; l++)
        for (int s = 0; s < 16; s++) many[k][l] += mask[i][16 * l + s] & 1;
    }
  }
}
