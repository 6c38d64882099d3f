#include <math.h>
void kernel(const float (*restrict u)[W + 1], const float (*restrict v)[W], const float (*restrict t)[W], const float (*restrict dew)[W],
            float (*restrict speed)[W], float (*restrict from)[W], float (*restrict humidity)[W], float (*restrict feels)[W]) {
#pragma omp parallel for
  for (int i = 0; i < H; i++)
#pragma omp simd
    for (int j = 0; j < W; j++) {
      float east = (u[i][j] + u[i][j + 1]) * 0.5f, north = (v[i][j] + v[i + 1][j]) * 0.5f, c = t[i][j], d = dew[i][j];
      float wind = sqrtf(east * east + north * north), angle = 270 - atan2f(north, east) * 57.29578f;
      float damp = 100 * expf(17.625f * d / (d + 243.04f) - 17.625f * c / (c + 243.04f));
      float fast = powf(3.6f * fmaxf(wind, 1), 0.16f), cold = 13.12f + 0.6215f * c + fast * (0.3965f * c - 11.37f);
      speed[i][j] = wind;
      from[i][j] = angle >= 360 ? angle - 360 : angle;
      humidity[i][j] = damp > 100 ? 100 : damp;
      feels[i][j] = c < 10 && wind > 1.3f ? cold : c;
    }
}
