#include <stdlib.h>
typedef unsigned char u8;
#define V (W + K + D - 2)
static void shift(const u8 (*restrict l)[V], const u8 (*restrict r)[V], int e, u8 *restrict at, short *restrict least) {
  short column[W + K - 1];
  for (int j = 0; j < W + K - 1; j++) column[j] = 0;
  for (int p = 0; p < K; p++)
    for (int j = 0; j < W + K - 1; j++) {
      short v = l[p][j + D - 1] - r[p][j + D - 1 - e];
      column[j] += v < 0 ? -v : v;
    }
  for (int j = 0; j < W; j++) {
    short cost = 0;
    for (int q = 0; q < K; q++) cost += column[j + q];
    at[j] = cost < least[j] ? e : at[j];
    least[j] = cost < least[j] ? cost : least[j];
  }
}
void kernel(const u8 (*restrict left)[V], const u8 (*restrict right)[V], u8 (*restrict at)[W], short (*restrict least)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    for (int j = 0; j < W; j++) at[i][j] = 0, least[i][j] = 32767;
    for (int e = 0; e < D; e++) shift(left + i, right + i, e, at[i], least[i]);
  }
}
