#include <math.h>
static void row(const float (*restrict x)[V], const float *restrict prior, float *restrict y) {
  float share[K], all = 0, e[V];
  for (int j = 0; j < K; j++) all += share[j] = expf(prior[j]);
  for (int o = 0; o < V; o++) y[o] = 0;
  for (int j = 0; j < K; j++) {
    float top = -INFINITY, total = 0;
    for (int o = 0; o < V; o++) top = x[j][o] > top ? x[j][o] : top;
    for (int o = 0; o < V; o++) total += e[o] = expf(x[j][o] - top);
    float s = share[j] / (all * total);
    for (int o = 0; o < V; o++) y[o] += s * e[o];
  }
  for (int o = 0; o < V; o++) y[o] = logf(y[o]);
}
void kernel(const float (*restrict x)[K][V], const float (*restrict prior)[K], float (*restrict y)[V]) {
#pragma omp parallel for
  for (int i = 0; i < B; i++) row(x[i], prior[i], y[i]);
}
