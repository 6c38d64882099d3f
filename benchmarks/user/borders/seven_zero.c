#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < D; i++)
    for (int j = 0; j < H; j++)
      for (int k = 0; k < W; k++)
        y[(i*H+j)*W+k] = x[(i*H+j)*W+k]*0.5f
            + ((i-1>=0) ? x[((i-1)*H+j)*W+k] : 0)*0.51f
            + ((i+1<D) ? x[((i+1)*H+j)*W+k] : 0)*0.52f
            + ((j-1>=0) ? x[(i*H+(j-1))*W+k] : 0)*0.53f
            + ((j+1<H) ? x[(i*H+(j+1))*W+k] : 0)*0.54f
            + ((k-1>=0) ? x[(i*H+j)*W+(k-1)] : 0)*0.55f
            + ((k+1<W) ? x[(i*H+j)*W+(k+1)] : 0)*0.56f;
}
