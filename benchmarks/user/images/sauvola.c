#include <math.h>
static void row(const unsigned char (*restrict x)[W + 14], unsigned char *restrict y) {
  int one[W + 14], two[W + 14];
  for (int j = 0; j < W + 14; j++) one[j] = two[j] = 0;
  for (int a = 0; a < 15; a++)
    for (int j = 0; j < W + 14; j++) one[j] += x[a][j], two[j] += x[a][j] * x[a][j];
  for (int j = 0; j < W; j++) {
    int total = 0, squares = 0;
    for (int b = 0; b < 15; b++) total += one[j + b], squares += two[j + b];
    float mean = total * (1 / 225.f), v = squares * (1 / 225.f) - mean * mean, deviation = sqrtf(v > 0 ? v : 0);
    y[j] = x[7][j + 7] > mean * (1 + 0.3f * (deviation * (1 / 128.f) - 1)) ? 255 : 0;
  }
}
void kernel(const unsigned char (*restrict x)[W + 14], unsigned char (*restrict y)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(x + i, y[i]);
}
