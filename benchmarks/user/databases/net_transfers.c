#include <stdlib.h>
typedef long long i64;
void kernel(const i64 (*restrict t)[N], i64 *restrict net, double *restrict own, i64 *restrict apart, unsigned char (*restrict more)[N]) {
  i64 gain[N] = {0}, skew = 0;
  for (int i = 0; i < N; i++)
    for (int j = 0; j < N; j++) gain[j] += t[i][j];
#pragma omp parallel for reduction(+ : skew)
  for (int i = 0; i < N; i++) {
    i64 loss = 0;
    for (int j = 0; j < N; j++) {
      loss += t[i][j];
      more[i][j] = (t[i][j] > t[j][i]) & (gain[i] > gain[j]);
    }
    for (int j = 0; j < i; j++) skew += llabs(t[i][j] - t[j][i]);
    net[i] = gain[i] - loss;
    own[i] = t[i][i] / (double)(gain[i] + 1);
  }
  *apart = skew;
}
