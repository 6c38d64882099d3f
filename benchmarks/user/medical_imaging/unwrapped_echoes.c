#include <math.h>
static void row(const float (*restrict phase)[H][W], const float (*restrict loud)[H][W], const float *restrict ms, int i,
                float *restrict hertz) {
  for (int j = 0; j < W; j++) {
    float turns = 0, one = 0, st = 0, tt = 0, sp = 0, tp = 0;
    for (int t = 0; t < E; t++) {
      if (t) turns += rintf((phase[t][i][j] - phase[t - 1][i][j]) * (1 / 6.2831853f));
      float weight = loud[t][i][j] * loud[t][i][j], p = phase[t][i][j] - 6.2831853f * turns;
      one += weight;
      st += weight * ms[t];
      tt += weight * ms[t] * ms[t];
      sp += weight * p;
      tp += weight * ms[t] * p;
    }
    hertz[j] = (one * tp - st * sp) / (one * tt - st * st) * (1000 / 6.2831853f);
  }
}
void kernel(const float (*restrict phase)[H][W], const float (*restrict loud)[H][W], const float *restrict ms,
            float (*restrict hertz)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++) row(phase, loud, ms, i, hertz[i]);
}
