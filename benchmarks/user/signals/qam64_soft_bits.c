#include <stdlib.h>
static signed char soft(int v, int weight) {
  v = (v * weight + 2048) >> 12;
  return v < -127 ? -127 : v > 127 ? 127 : v;
}
static void symbol(const short (*restrict x)[2], const unsigned char *restrict weight, signed char (*restrict y)[3][2]) {
  signed char a[K][2], b[K][2], d[K][2];
  for (int j = 0; j < K; j++)
    for (int c = 0; c < 2; c++) {
      int first = x[j][c], second = 4096 - abs(first), third = 2048 - abs(second);
      a[j][c] = soft(first, weight[j]), b[j][c] = soft(second, weight[j]), d[j][c] = soft(third, weight[j]);
    }
  for (int j = 0; j < K; j++)
    for (int c = 0; c < 2; c++) y[j][0][c] = a[j][c], y[j][1][c] = b[j][c], y[j][2][c] = d[j][c];
}
void kernel(const short (*restrict x)[K][2], const unsigned char *restrict weight, signed char (*restrict y)[K][3][2]) {
#pragma omp parallel for
  for (int i = 0; i < S; i++) symbol(x[i], weight, y[i]);
}
