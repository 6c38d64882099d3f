#include <math.h>
static float most(float v) { return v < -32768 ? -32768 : v > 32767 ? 32767 : v; }
static void side(const short (*restrict x)[2], float phase, short (*restrict y)[2]) {
  float ago[N];
  for (int i = 0; i < N; i++) ago[i] = sinf(i * 1.9634954e-4f + phase) * 300 + 400;
  for (int i = 0; i < N; i++) {
    int whole = ago[i], at = i + 800 - whole;
    float part = ago[i] - whole, late = x[at][0] * (1 - part) + x[at - 1][0] * part;
    y[i][0] = (int)rintf(most(x[i + 800][0] * 0.7f + late * 0.5f));
  }
}
void kernel(const short (*restrict x)[2], const float *restrict sides, short (*restrict y)[2]) {
#pragma omp parallel for
  for (int c = 0; c < 2; c++) side((const void *)&x[0][c], sides[c], (void *)&y[0][c]);
}
