#include <stdlib.h>
void kernel(const unsigned char (*restrict x)[8 * W + 1], unsigned char (*restrict mode)[W], int (*restrict cost)[W],
            short (*restrict rest)[W][8][8]) {
#pragma omp parallel for
  for (int by = 0; by < H; by++)
    for (int bx = 0; bx < W; bx++) {
      int top[8], left[8], sum = 8, best = 0, sad[4] = {0};
      short all[4][8][8];
      for (int k = 0; k < 8; k++) {
        top[k] = x[8 * by][8 * bx + 1 + k], left[k] = x[8 * by + 1 + k][8 * bx];
        sum += top[k] + left[k];
      }
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) {
          int v = x[8 * by + 1 + r][8 * bx + 1 + c];
          all[0][r][c] = v - (sum >> 4), all[1][r][c] = v - top[c], all[2][r][c] = v - left[r];
          all[3][r][c] = v - (((7 - c) * left[r] + (c + 1) * top[7] + (7 - r) * top[c] + (r + 1) * left[7] + 8) >> 4);
          for (int m = 0; m < 4; m++) sad[m] += abs(all[m][r][c]);
        }
      for (int m = 1; m < 4; m++) best = sad[m] < sad[best] ? m : best;
      mode[by][bx] = best, cost[by][bx] = sad[best];
      for (int r = 0; r < 8; r++)
        for (int c = 0; c < 8; c++) rest[by][bx][r][c] = all[best][r][c];
    }
}
