#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++)
      for (int k = 0; k < W; k++)
        y[(i*H+j)*W+k] = x[(i*H+j)*W+k]*0.5f
            + x[(MAX(i-1, 0)*H+j)*W+k]*0.51f
            + x[(MIN(i+1, D-1)*H+j)*W+k]*0.52f
            + x[(i*H+(MAX(j-1, 0)))*W+k]*0.53f
            + x[(i*H+(MIN(j+1, H-1)))*W+k]*0.54f
            + x[(i*H+j)*W+(MAX(k-1, 0))]*0.55f
            + x[(i*H+j)*W+(MIN(k+1, W-1))]*0.56f;
}
