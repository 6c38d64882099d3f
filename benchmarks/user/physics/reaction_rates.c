#include <math.h>
static void reaction(const float *restrict logs, const float *restrict over, float fast, float power, float barrier,
                     const float *restrict a, const float *restrict b, float *restrict rate) {
  for (int i = 0; i < N; i++) rate[i] = fast * expf(power * logs[i] - barrier * over[i]) * a[i] * b[i];
}
static void add(float by, const float *restrict rate, float *restrict y) {
  for (int i = 0; i < N; i++) y[i] += by * rate[i];
}
void kernel(const float (*restrict c)[N], const float *restrict heat, const float *restrict fast, const float *restrict power,
            const float *restrict barrier, const int (*restrict who)[R], float (*restrict y)[N]) {
  float logs[N], over[N], rate[N];
  for (int i = 0; i < N; i++) logs[i] = logf(heat[i]), over[i] = 1 / heat[i];
  for (int k = 0; k < S; k++)
    for (int i = 0; i < N; i++) y[k][i] = 0;
  for (int k = 0; k < R; k++) {
    reaction(logs, over, fast[k], power[k], barrier[k], c[who[0][k]], c[who[1][k]], rate);
    for (int q = 0; q < 3; q++) add(q == 2 ? 1 : -1, rate, y[who[q][k]]);
  }
}
