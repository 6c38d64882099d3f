#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i*W+j] = x[((i-1+H)%H)*W+((j-1+W)%W)]*0.5f
          + x[((i-1+H)%H)*W+j]*0.51f
          + x[((i-1+H)%H)*W+((j+1+W)%W)]*0.52f
          + x[i*W+((j-1+W)%W)]*0.53f
          + x[i*W+j]*0.54f
          + x[i*W+((j+1+W)%W)]*0.55f
          + x[((i+1+H)%H)*W+((j-1+W)%W)]*0.56f
          + x[((i+1+H)%H)*W+j]*0.57f
          + x[((i+1+H)%H)*W+((j+1+W)%W)]*0.58f;
}
