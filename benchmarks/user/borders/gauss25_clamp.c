#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i*W+j] = x[MAX(i-2, 0)*W+(MAX(j-2, 0))]*0.5f
          + x[MAX(i-2, 0)*W+(MAX(j-1, 0))]*0.51f
          + x[MAX(i-2, 0)*W+j]*0.52f
          + x[MAX(i-2, 0)*W+(MIN(j+1, W-1))]*0.53f
          + x[MAX(i-2, 0)*W+(MIN(j+2, W-1))]*0.54f
          + x[MAX(i-1, 0)*W+(MAX(j-2, 0))]*0.55f
          + x[MAX(i-1, 0)*W+(MAX(j-1, 0))]*0.56f
          + x[MAX(i-1, 0)*W+j]*0.57f
          + x[MAX(i-1, 0)*W+(MIN(j+1, W-1))]*0.58f
          + x[MAX(i-1, 0)*W+(MIN(j+2, W-1))]*0.59f
          + x[i*W+(MAX(j-2, 0))]*0.6f
          + x[i*W+(MAX(j-1, 0))]*0.61f
          + x[i*W+j]*0.62f
          + x[i*W+(MIN(j+1, W-1))]*0.63f
          + x[i*W+(MIN(j+2, W-1))]*0.64f
          + x[MIN(i+1, H-1)*W+(MAX(j-2, 0))]*0.65f
          + x[MIN(i+1, H-1)*W+(MAX(j-1, 0))]*0.66f
          + x[MIN(i+1, H-1)*W+j]*0.67f
          + x[MIN(i+1, H-1)*W+(MIN(j+1, W-1))]*0.68f
          + x[MIN(i+1, H-1)*W+(MIN(j+2, W-1))]*0.69f
          + x[MIN(i+2, H-1)*W+(MAX(j-2, 0))]*0.7f
          + x[MIN(i+2, H-1)*W+(MAX(j-1, 0))]*0.71f
          + x[MIN(i+2, H-1)*W+j]*0.72f
          + x[MIN(i+2, H-1)*W+(MIN(j+1, W-1))]*0.73f
          + x[MIN(i+2, H-1)*W+(MIN(j+2, W-1))]*0.74f;
}
