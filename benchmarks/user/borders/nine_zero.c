#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i*W+j] = ((i-1>=0&&j-1>=0) ? x[(i-1)*W+(j-1)] : 0)*0.5f
          + ((i-1>=0) ? x[(i-1)*W+j] : 0)*0.51f
          + ((i-1>=0&&j+1<W) ? x[(i-1)*W+(j+1)] : 0)*0.52f
          + ((j-1>=0) ? x[i*W+(j-1)] : 0)*0.53f
          + x[i*W+j]*0.54f
          + ((j+1<W) ? x[i*W+(j+1)] : 0)*0.55f
          + ((i+1<H&&j-1>=0) ? x[(i+1)*W+(j-1)] : 0)*0.56f
          + ((i+1<H) ? x[(i+1)*W+j] : 0)*0.57f
          + ((i+1<H&&j+1<W) ? x[(i+1)*W+(j+1)] : 0)*0.58f;
}
