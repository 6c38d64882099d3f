#include <math.h>
static void add(const float (*restrict x)[2], const float (*restrict s)[2], float *restrict re, float *restrict im, float *restrict p) {
  for (int j = 0; j < W; j++) {
    re[j] += x[j][0] * s[j][0] + x[j][1] * s[j][1];
    im[j] += x[j][1] * s[j][0] - x[j][0] * s[j][1];
    p[j] += s[j][0] * s[j][0] + s[j][1] * s[j][1];
  }
}
void kernel(const float (*restrict x)[H][W][2], const float (*restrict s)[H][W][2], float (*restrict y)[W][2]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) {
    float re[W] = {0}, im[W] = {0}, power[W] = {0};
    for (int c = 0; c < C; c++) add(x[c][i], s[c][i], re, im, power);
    for (int j = 0; j < W; j++) {
      float over = 1 / sqrtf(power[j] + 1e-6f);
      y[i][j][0] = re[j] * over;
      y[i][j][1] = im[j] * over;
    }
  }
}
