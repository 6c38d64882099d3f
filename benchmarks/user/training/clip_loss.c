#include <math.h>
void kernel(const float (*restrict a)[D], const float (*restrict b)[D], float *restrict loss, float *restrict mean, int *restrict hits) {
  static float s[N][N];
  float most[N], down[N], total = 0;
  int first = 0;
#pragma omp parallel for
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) {
      float sum = 0;
      for (int k = 0; k < D; k++) sum += a[i][k] * b[j][k];
      s[i][j] = sum * 0.25f;
    }
  for (int j = 0; j < N; j++) most[j] = s[0][j], down[j] = 0;
  for (int i = 1; i < N; i++)
    for (int j = 0; j < N; j++) most[j] = s[i][j] > most[j] ? s[i][j] : most[j];
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) down[j] += expf(s[i][j] - most[j]);
#pragma omp parallel for reduction(+ : total, first)
  for (int i = 0; i < N; i++) {
    float row = s[i][0], across = 0;
    int best = 0;
    for (int j = 1; j < N; j++)
      if (s[i][j] > row) row = s[i][j], best = j;
    for (int j = 0; j < N; j++) across += expf(s[i][j] - row);
    loss[i] = (row + logf(across) + most[i] + logf(down[i])) * 0.5f - s[i][i];
    total += loss[i] * (1.f / N), first += best == i;
  }
  *mean = total, *hits = first;
}
