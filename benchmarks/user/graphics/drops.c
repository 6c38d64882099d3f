#include <math.h>
#include <string.h>
void kernel(const int *restrict y, const int *restrict x, const float *restrict sharp, const float *restrict bright,
            float (*restrict picture)[W]) {
  memset(picture, 0, sizeof(float) * H * W);
  for (int i = 0; i < N; i++) {
    float side[2 * R + 1];
    for (int a = -R; a <= R; a++) side[a + R] = expf(-sharp[i] * a * a);
    int first = x[i] < R ? R - x[i] : 0, end = x[i] + R < W ? 2 * R + 1 : W - x[i] + R;
    for (int a = 0; a < 2 * R + 1; a++) {
      int row = y[i] + a - R;
      if (row < 0 || row >= H) continue;
      float f = bright[i] * side[a], *restrict out = &picture[row][x[i] - R];
      for (int b = first; b < end; b++) out[b] += f * side[b];
    }
  }
}
