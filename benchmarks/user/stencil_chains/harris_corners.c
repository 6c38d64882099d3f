#include "chains.h"

static float gx[H + 2][W + 2] ALIGNED, gy[H + 2][W + 2] ALIGNED, sxx[H][W] ALIGNED, syy[H][W] ALIGNED, sxy[H][W] ALIGNED;

void kernel(const float (*restrict a)[W + 4], float (*restrict out)[W]) {
#pragma omp parallel for
  for (int y = 0; y < H + 2; y++)
    for (int x = 0; x < W + 2; x++)
      gx[y][x] = (a[y][x + 2] - a[y][x]) * 1.0f + (a[y + 1][x + 2] - a[y + 1][x]) * 2.0f + (a[y + 2][x + 2] - a[y + 2][x]) * 1.0f;
#pragma omp parallel for
  for (int y = 0; y < H + 2; y++)
    for (int x = 0; x < W + 2; x++)
      gy[y][x] = (a[y + 2][x] - a[y][x]) * 1.0f + (a[y + 2][x + 1] - a[y][x + 1]) * 2.0f + (a[y + 2][x + 2] - a[y][x + 2]) * 1.0f;
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      sxx[y][x] = gx[y][x] * gx[y][x] + gx[y][x + 1] * gx[y][x + 1] + gx[y][x + 2] * gx[y][x + 2] +
                  gx[y + 1][x] * gx[y + 1][x] + gx[y + 1][x + 1] * gx[y + 1][x + 1] + gx[y + 1][x + 2] * gx[y + 1][x + 2] +
                  gx[y + 2][x] * gx[y + 2][x] + gx[y + 2][x + 1] * gx[y + 2][x + 1] + gx[y + 2][x + 2] * gx[y + 2][x + 2];
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      syy[y][x] = gy[y][x] * gy[y][x] + gy[y][x + 1] * gy[y][x + 1] + gy[y][x + 2] * gy[y][x + 2] +
                  gy[y + 1][x] * gy[y + 1][x] + gy[y + 1][x + 1] * gy[y + 1][x + 1] + gy[y + 1][x + 2] * gy[y + 1][x + 2] +
                  gy[y + 2][x] * gy[y + 2][x] + gy[y + 2][x + 1] * gy[y + 2][x + 1] + gy[y + 2][x + 2] * gy[y + 2][x + 2];
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++)
      sxy[y][x] = gx[y][x] * gy[y][x] + gx[y][x + 1] * gy[y][x + 1] + gx[y][x + 2] * gy[y][x + 2] +
                  gx[y + 1][x] * gy[y + 1][x] + gx[y + 1][x + 1] * gy[y + 1][x + 1] + gx[y + 1][x + 2] * gy[y + 1][x + 2] +
                  gx[y + 2][x] * gy[y + 2][x] + gx[y + 2][x + 1] * gy[y + 2][x + 1] + gx[y + 2][x + 2] * gy[y + 2][x + 2];
#pragma omp parallel for
  for (int y = 0; y < H; y++)
    for (int x = 0; x < W; x++) {
        float t = sxx[y][x] + syy[y][x];
        out[y][x] = sxx[y][x] * syy[y][x] - sxy[y][x] * sxy[y][x] - t * t * 0.04f;
      }
}
