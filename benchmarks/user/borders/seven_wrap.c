#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++)
      for (int k = 0; k < W; k++)
        y[(i*H+j)*W+k] = x[(i*H+j)*W+k]*0.5f
            + x[(((i-1+D)%D)*H+j)*W+k]*0.51f
            + x[(((i+1+D)%D)*H+j)*W+k]*0.52f
            + x[(i*H+((j-1+H)%H))*W+k]*0.53f
            + x[(i*H+((j+1+H)%H))*W+k]*0.54f
            + x[(i*H+j)*W+((k-1+W)%W)]*0.55f
            + x[(i*H+j)*W+((k+1+W)%W)]*0.56f;
}
