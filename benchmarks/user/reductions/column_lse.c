#include <math.h>
void kernel(const float (*restrict x)[C], float *restrict y) {
  float top[C], total[C];
  for (int j = 0; j < C; j++) top[j] = x[0][j], total[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < C; j++) top[j] = x[i][j] > top[j] ? x[i][j] : top[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) total[j] += expf(x[i][j] - top[j]);
  for (int j = 0; j < C; j++) y[j] = top[j] + logf(total[j]);
}
