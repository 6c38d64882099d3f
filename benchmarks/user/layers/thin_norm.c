#include <math.h>
void kernel(const float (*restrict x)[C][H * W], const float *restrict g, float (*restrict y)[C][H * W], float *restrict channel,
            long long *restrict first) {
  for (int j = 0; j < C; j++) channel[j] = 0;
  for (int i = 0; i < B; i++) {
    const float *v = x[i][0];
    float mean = 0, var = 0;
    for (int k = 0; k < C * H * W; k++) mean += v[k];
    mean /= C * H * W;
    for (int k = 0; k < C * H * W; k++) var += (v[k] - mean) * (v[k] - mean);
    float scale = 1 / sqrtf(var / (C * H * W) + 1e-5f);
    for (int j = 0; j < C; j++) {
      float sum = 0;
      for (int k = 0; k < H * W; k++) {
        y[i][j][k] = (x[i][j][k] - mean) * scale * g[j];
        sum += x[i][j][k];
      }
      channel[j] += sum / (B * H * W);
    }
    int at = 0;
    while (at < C * H * W && !(v[at] > mean)) at++;
    first[i] = at;
  }
}
