#include <math.h>
static void voice(const double pitch, const double glide, const double ratio, const double depth, const double gain, const double fade,
                  double *restrict mix) {
  double phase[N], sum = 0;
  for (int j = 0; j < N; j++) phase[j] = pitch * exp2(glide * j);
  for (int j = 0; j < N; j++) sum = phase[j] += sum;
  for (int j = 0; j < N; j++) {
    double loud = exp(-fade * j);
    mix[j] += gain * loud * sin(phase[j] + depth * loud * sin(ratio * phase[j]));
  }
}
void kernel(const double *restrict pitch, const double *restrict glide, const double *restrict ratio, const double *restrict depth,
            const double *restrict gain, const double *restrict fade, short *restrict y) {
  double mix[N] = {0};
#pragma omp parallel for reduction(+ : mix[:N])
  for (int i = 0; i < V; i++) voice(pitch[i], glide[i], ratio[i], depth[i], gain[i], fade[i], mix);
  for (int j = 0; j < N; j++) y[j] = (int)rint(tanh(mix[j]) * 32767);
}
