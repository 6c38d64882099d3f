#include "borders.h"

void kernel(const unsigned char *restrict x, unsigned char *restrict y) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      int a = (-1)*x[MAX(i-1, 0)*W+MAX(j-1, 0)]
          + (1)*x[MAX(i-1, 0)*W+MIN(j+1, W-1)]
          + (-2)*x[i*W+MAX(j-1, 0)]
          + (2)*x[i*W+MIN(j+1, W-1)]
          + (-1)*x[MIN(i+1, H-1)*W+MAX(j-1, 0)]
          + (1)*x[MIN(i+1, H-1)*W+MIN(j+1, W-1)];
      int b = (-1)*x[MAX(i-1, 0)*W+MAX(j-1, 0)]
          + (1)*x[MIN(i+1, H-1)*W+MAX(j-1, 0)]
          + (-2)*x[MAX(i-1, 0)*W+j]
          + (2)*x[MIN(i+1, H-1)*W+j]
          + (-1)*x[MAX(i-1, 0)*W+MIN(j+1, W-1)]
          + (1)*x[MIN(i+1, H-1)*W+MIN(j+1, W-1)];
      int s = abs(a) + abs(b);
      y[i*W+j] = MIN(s, 255);
    }
}
