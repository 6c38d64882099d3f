#include <math.h>
void kernel(const float (*restrict x)[C], float (*restrict y)[C]) {
  float top[C], total[C];
  for (int j = 0; j < C; j++) top[j] = x[0][j], total[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < C; j++) top[j] = x[i][j] > top[j] ? x[i][j] : top[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) {
      y[i][j] = expf(x[i][j] - top[j]);
      total[j] += y[i][j];
    }
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) y[i][j] /= total[j];
}
