#include <math.h>
void kernel(const float (*restrict x)[2], float (*restrict y)[2], float *restrict most_reduced) {
  static float held[N];
  float now = 0, least = 1;
  for (int t = 0; t < N; t++) {
    float l = fabsf(x[t][0]), r = fabsf(x[t][1]), peak = l > r ? l : r;
    now *= 0.9995f;
    now = peak > now ? peak : now;
    held[t] = now;
  }
#pragma omp parallel for reduction(min : least)
  for (int t = 0; t < N; t++) {
    float over = log2f(held[t] + 1e-6f) + 1, gain = exp2f((over > 0 ? over : 0) * -0.75f);
    y[t][0] = x[t][0] * gain, y[t][1] = x[t][1] * gain;
    least = gain < least ? gain : least;
  }
  *most_reduced = least;
}
