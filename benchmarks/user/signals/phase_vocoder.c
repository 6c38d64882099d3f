#include <math.h>
static void frame(const float (*restrict x)[2], float *restrict phase) {
  for (int j = 0; j < B; j++) phase[j] = atan2f(x[j][1], x[j][0]);
}
static void both(const float (*restrict x)[2], const float *restrict p, const float *restrict q, float *restrict loud, float *restrict bin) {
  for (int j = 0; j < B; j++) {
    float turn = (q[j] - p[j]) * 0.15915494f - (j % 4) * 0.25f, off = turn - rintf(turn);
    loud[j] = sqrtf(x[j][0] * x[j][0] + x[j][1] * x[j][1]);
    bin[j] = j + off * 4;
  }
}
void kernel(const float (*restrict x)[B][2], float (*restrict loud)[B], float (*restrict bin)[B]) {
  static float phase[F + 1][B];
#pragma omp parallel for
  for (int i = 0; i < F + 1; i++) frame(x[i], phase[i]);
#pragma omp parallel for
  for (int i = 0; i < F; i++) both(x[i + 1], phase[i], phase[i + 1], loud[i], bin[i]);
}
