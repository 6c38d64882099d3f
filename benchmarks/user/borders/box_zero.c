#include "borders.h"

void kernel(const float *restrict x, const float *restrict g, float *restrict y) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++) {
      float s = 0;
      for (int p = 0; p < 2*R+1; p++)
        for (int q = 0; q < 2*R+1; q++)
          s += ((i+p-R >= 0 && i+p-R < H && j+q-R >= 0 && j+q-R < W) ? x[(i+p-R)*W+j+q-R] : 0)*g[p*(2*R+1)+q];
      y[i*W+j] = s;
    }
}
