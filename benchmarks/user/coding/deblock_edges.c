#include <stdlib.h>
#include <string.h>
typedef unsigned char u8;
static u8 byte(int v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
void kernel(const u8 (*restrict x)[8 * B], const u8 (*restrict qp)[B], const u8 *restrict alpha, const u8 *restrict beta,
            const u8 *restrict most, u8 (*restrict y)[8 * B]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    memcpy(y[i], x[i], 8 * B);
    for (int e = 0; e < B - 1; e++) {
      const u8 *v = &x[i][8 * e + 6];
      int at = (qp[i / 8][e] + qp[i / 8][e + 1] + 1) >> 1, tc = most[at];
      if (abs(v[1] - v[2]) < alpha[at] && abs(v[0] - v[1]) < beta[at] && abs(v[3] - v[2]) < beta[at]) {
        int delta = ((v[2] - v[1]) * 4 + (v[0] - v[3]) + 4) >> 3;
        delta = delta < -tc ? -tc : delta > tc ? tc : delta;
        y[i][8 * e + 7] = byte(v[1] + delta), y[i][8 * e + 8] = byte(v[2] - delta);
      }
    }
  }
}
