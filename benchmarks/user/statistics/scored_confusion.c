#include <math.h>
void kernel(const float (*restrict x)[C], const unsigned char *restrict label, int (*restrict many)[C], float *restrict worst,
            float *restrict mass, unsigned char (*restrict hit)[C]) {
  for (int k = 0; k < C; k++) {
    worst[k] = -INFINITY;
    mass[k] = 0;
    for (int l = 0; l < C; l++) many[k][l] = 0;
  }
  for (int i = 0; i < N; i++) {
    int best = 0, at = label[i];
    float total = 0;
    for (int k = 0; k < C; k++) {
      best = x[i][k] > x[i][best] ? k : best;
      total += expf(x[i][k]);
      hit[i][k] = 0;
    }
    hit[i][best] = 1;
    float wrong = best == at ? 0 : expf(x[i][best]) / total;
    many[at][best]++;
    worst[at] = wrong > worst[at] ? wrong : worst[at];
    mass[at] += expf(x[i][at]) / total;
  }
}
