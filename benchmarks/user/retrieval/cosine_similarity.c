#include <math.h>
void kernel(const float (*restrict x)[N], const float (*restrict y)[N], float *restrict z) {
#pragma omp parallel for
  for (int i = 0; i < M; i++) {
    float dot = 0, one = 0, other = 0;
    for (int j = 0; j < N; j++) {
      dot += x[i][j] * y[i][j];
      one += x[i][j] * x[i][j];
      other += y[i][j] * y[i][j];
    }
    z[i] = dot / sqrtf(one * other + 1e-8f);
  }
}
