#include "borders.h"

void kernel(const float *restrict x, float *restrict y) {
  for (int i = 0; i < H; i++)
    for (int j = 0; j < W; j++)
      y[i*W+j] = x[abs(i-2)*W+abs(j-2)]*0.5f
          + x[abs(i-2)*W+abs(j-1)]*0.51f
          + x[abs(i-2)*W+j]*0.52f
          + x[abs(i-2)*W+(MIN(j+1, 2*(W-1)-(j+1)))]*0.53f
          + x[abs(i-2)*W+(MIN(j+2, 2*(W-1)-(j+2)))]*0.54f
          + x[abs(i-1)*W+abs(j-2)]*0.55f
          + x[abs(i-1)*W+abs(j-1)]*0.56f
          + x[abs(i-1)*W+j]*0.57f
          + x[abs(i-1)*W+(MIN(j+1, 2*(W-1)-(j+1)))]*0.58f
          + x[abs(i-1)*W+(MIN(j+2, 2*(W-1)-(j+2)))]*0.59f
          + x[i*W+abs(j-2)]*0.6f
          + x[i*W+abs(j-1)]*0.61f
          + x[i*W+j]*0.62f
          + x[i*W+(MIN(j+1, 2*(W-1)-(j+1)))]*0.63f
          + x[i*W+(MIN(j+2, 2*(W-1)-(j+2)))]*0.64f
          + x[MIN(i+1, 2*(H-1)-(i+1))*W+abs(j-2)]*0.65f
          + x[MIN(i+1, 2*(H-1)-(i+1))*W+abs(j-1)]*0.66f
          + x[MIN(i+1, 2*(H-1)-(i+1))*W+j]*0.67f
          + x[MIN(i+1, 2*(H-1)-(i+1))*W+(MIN(j+1, 2*(W-1)-(j+1)))]*0.68f
          + x[MIN(i+1, 2*(H-1)-(i+1))*W+(MIN(j+2, 2*(W-1)-(j+2)))]*0.69f
          + x[MIN(i+2, 2*(H-1)-(i+2))*W+abs(j-2)]*0.7f
          + x[MIN(i+2, 2*(H-1)-(i+2))*W+abs(j-1)]*0.71f
          + x[MIN(i+2, 2*(H-1)-(i+2))*W+j]*0.72f
          + x[MIN(i+2, 2*(H-1)-(i+2))*W+(MIN(j+1, 2*(W-1)-(j+1)))]*0.73f
          + x[MIN(i+2, 2*(H-1)-(i+2))*W+(MIN(j+2, 2*(W-1)-(j+2)))]*0.74f;
}
