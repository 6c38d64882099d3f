#include <math.h>
void kernel(const float (*restrict x)[C], float (*restrict y)[C]) {
  float mean[C], square[C];
  for (int j = 0; j < C; j++) mean[j] = square[j] = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) mean[j] += x[i][j];
  for (int j = 0; j < C; j++) mean[j] /= N;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) square[j] += (x[i][j] - mean[j]) * (x[i][j] - mean[j]);
  for (int j = 0; j < C; j++) square[j] = 1 / sqrtf(square[j] / N + 1e-5f);
  for (int i = 0; i < N; i++)
    for (int j = 0; j < C; j++) y[i][j] = (x[i][j] - mean[j]) * square[j];
}
