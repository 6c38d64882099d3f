#include <math.h>
void kernel(const float (*restrict alpha)[S], const float (*restrict turn)[S], const float (*restrict emit)[V],
            const int *restrict seen, float (*restrict y)[S]) {
#pragma omp parallel for
  for (int n = 0; n < B; n++) {
    float top[S], total[S];
    for (int j = 0; j < S; j++) top[j] = -INFINITY, total[j] = 0;
    for (int i = 0; i < S; i++)
      for (int j = 0; j < S; j++) top[j] = fmaxf(top[j], alpha[n][i] + turn[i][j]);
    for (int i = 0; i < S; i++)
      for (int j = 0; j < S; j++) total[j] += expf(alpha[n][i] + turn[i][j] - top[j]);
    for (int j = 0; j < S; j++) y[n][j] = emit[j][seen[n]] + top[j] + logf(total[j]);
  }
}
