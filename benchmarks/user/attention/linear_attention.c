#include <math.h>
static float positive(float v) { return v > 0 ? v + 1 : expf(v); }
void kernel(const float (*restrict q)[H][D], const float (*restrict k)[H][D], const float (*restrict v)[H][E], float (*restrict y)[H][E]) {
#pragma omp parallel for
  for (int a = 0; a < H; a++) {
    float state[D][E] = {0}, keys[D] = {0};
    for (int i = 0; i < T; i++) {
      float up[E] = {0}, low = 0;
      for (int j = 0; j < D; j++) {
        float f = positive(k[i][a][j]), g = positive(q[i][a][j]);
        keys[j] += f;
        low += g * keys[j];
        for (int o = 0; o < E; o++) {
          state[j][o] += f * v[i][a][o];
          up[o] += g * state[j][o];
        }
      }
      for (int o = 0; o < E; o++) y[i][a][o] = up[o] / low;
    }
  }
}
