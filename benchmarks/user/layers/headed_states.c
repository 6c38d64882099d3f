#include <math.h>
#include <string.h>
void kernel(const float (*restrict x)[H][P], const float (*restrict z)[H][P], const float (*restrict raw)[H],
            const float *restrict bias, const float *restrict rate, const float *restrict skip, const float (*restrict gain)[N],
            const float (*restrict read)[N], const float (*restrict start)[P][N], float (*restrict y)[H][P],
            float (*restrict last)[P][N]) {
#pragma omp parallel for
  for (int a = 0; a < H; a++) {
    float state[P][N];
    memcpy(state, start[a], sizeof state);
    for (int i = 0; i < T; i++) {
      float step = log1pf(expf(raw[i][a] + bias[a])), fade = expf(-step * rate[a]);
      for (int c = 0; c < P; c++) {
        float in = step * x[i][a][c], sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int k = 0; k < N; k++) {
          state[c][k] = state[c][k] * fade + in * gain[i][k];
          sum += state[c][k] * read[i][k];
        }
        float g = z[i][a][c];
        y[i][a][c] = (sum + skip[a] * x[i][a][c]) * g / (1 + expf(-g));
      }
    }
    memcpy(last[a], state, sizeof state);
  }
}
