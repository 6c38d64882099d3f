static void level(const float *restrict x, const float *restrict below, const float *restrict above, const float *restrict under, float want,
                  float *restrict y) {
  for (int j = 0; j < H * W; j++) {
    float v = x[j] + (want - above[j]) / (under[j] - above[j]) * (below[j] - x[j]);
    y[j] = above[j] <= want && want < under[j] ? v : y[j];
  }
}
void kernel(const float (*restrict x)[H * W], const float (*restrict thick)[H * W], const float *restrict want, float (*restrict y)[H * W]) {
  static float press[L][H * W];
  for (int j = 0; j < H * W; j++) press[0][j] = thick[0][j];
  for (int k = 1; k < L; k++)
    for (int j = 0; j < H * W; j++) press[k][j] = press[k - 1][j] + thick[k][j];
#pragma omp parallel for
  for (int a = 0; a < T; a++) {
    for (int j = 0; j < H * W; j++) y[a][j] = 0;
    for (int k = 0; k + 1 < L; k++) level(x[k], x[k + 1], press[k], press[k + 1], want[a], y[a]);
  }
}
