#include <math.h>
void kernel(const short (*restrict hkl)[3], const float *restrict cell, const float (*restrict amp)[4], const float (*restrict wide)[4],
            const float (*restrict at)[3], const int *restrict kind, const float *restrict shake, float (*restrict f)[2], float *restrict power) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float h = hkl[i][0], k = hkl[i][1], l = hkl[i][2], form[E], re = 0, im = 0;
    float s2 = 0.25f * (h * cell[0] * h * cell[0] + k * cell[1] * k * cell[1] + l * cell[2] * l * cell[2]);
    for (int e = 0; e < E; e++) {
      form[e] = 0;
      for (int g = 0; g < 4; g++) form[e] += amp[e][g] * expf(-wide[e][g] * s2);
    }
    for (int j = 0; j < N; j++) {
      float turn = 6.2831853f * (h * at[j][0] + k * at[j][1] + l * at[j][2]), v = form[kind[j]] * expf(-shake[j] * s2);
      re += v * cosf(turn);
      im += v * sinf(turn);
    }
    f[i][0] = re;
    f[i][1] = im;
    power[i] = re * re + im * im;
  }
}
